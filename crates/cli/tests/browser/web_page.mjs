// The page that has memreel in it, in headless Chromium or Firefox, by WebDriver BiDi.
import {createRequire} from "node:module";
import path from "node:path";
import {pathToFileURL} from "node:url";

const puppeteer = createRequire(path.resolve(process.env.MEMREEL_PUPPETEER) + "/")("puppeteer-core");
const BROWSERS = {
  chrome: {executablePath: process.env.MEMREEL_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]},
  firefox: {executablePath: process.env.MEMREEL_FIREFOX ?? "/usr/bin/firefox-esr"},
};

// A wait that ends well costs nothing, and a machine that tests may be slow.
const PATIENCE_MS = 240_000;

/** Starts a browser. */
export const launch = kind => puppeteer.launch({browser: kind, headless: true, timeout: PATIENCE_MS, protocolTimeout: 600_000, ...BROWSERS[kind]});

export const close = browser => browser.close();

/** Opens the page from its file. Its `requests` are those to a network, and its `faults` errors, dialogs and violations. */
export async function open(browser, file, {hash = "", before} = {}) {
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const address = pathToFileURL(path.resolve(file)).href;
  page.requests = [];
  page.faults = [];
  page.on("request", request => { if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(address)) page.requests.push(request.url()); });
  page.on("pageerror", error => page.faults.push(`error: ${String(error.stack ?? error).slice(0, 500)}`));
  page.on("console", message => { if (message.type() === "error") page.faults.push(`console: ${message.text().slice(0, 500)}`); });
  page.on("dialog", dialog => { page.faults.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  await page.setViewport({width: 1200, height: 800});
  if (before) await page.evaluateOnNewDocument(before);
  await page.goto(address + hash, {waitUntil: "load"});
  await page.waitForFunction(() => window.memreel);
  return page;
}

/** Drops files on the page. */
export async function drop(page, files) {
  const input = await page.evaluateHandle(() => {
    const input = document.createElement("input");
    Object.assign(input, {type: "file", multiple: true, id: "test-files"});
    document.body.append(input);
    return input;
  });
  await input.uploadFile(...files);
  await page.evaluate(input => {
    const dataTransfer = new DataTransfer();
    for (const file of input.files) dataTransfer.items.add(file);
    input.remove();
    window.dropped_at = performance.now();
    document.body.dispatchEvent(new DragEvent("drop", {dataTransfer, bubbles: true, cancelable: true}));
  }, input);
}

/** Waits until all files are read or refused, and the page shows one. */
export const ready = page => page.waitForFunction(async () => {
  const {files} = await window.memreel.source.files();
  return files.length && files.every(file => file.state !== "reading") && document.documentElement.dataset.state !== "loading";
}, {polling: 50});
