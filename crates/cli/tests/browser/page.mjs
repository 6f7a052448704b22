// A server of `memreel view` and pages of it in headless Chromium, which remember every fault.
import {execFileSync, spawn} from "node:child_process";
import fs from "node:fs";
import {createRequire} from "node:module";
import path from "node:path";

const TARGET = process.env.CARGO_TARGET_DIR ?? "target";
export const PROGRAM = path.resolve(process.env.MEMREEL_PROGRAM ?? path.join(TARGET, "debug/memreel"));
export const CACHE = path.resolve(process.env.MEMREEL_BROWSER ?? path.join(TARGET, "viewer"));
const CHROMIUM = process.env.MEMREEL_CHROMIUM ?? "/usr/bin/chromium";
// A folder with files of the page, to try a change without a build.
const FOLDER = process.env.MEMREEL_PAGE;
const KINDS = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8"};
// Software rendering, and nothing that asks a network.
const ARGUMENTS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--enable-precise-memory-info",
];

/** What drives Chromium; the checks of the page with memreel in it use another driver. */
const chromium = () => createRequire(CACHE + "/")("playwright-core").chromium;

/** Returns what a command of memreel prints. */
export const program = (...words) => execFileSync(PROGRAM, words, {encoding: "utf8", maxBuffer: 2 ** 32, stdio: ["ignore", "pipe", "ignore"]});

/** Starts Chromium. */
export const browser = (more = []) => chromium().launch({executablePath: CHROMIUM, args: [...ARGUMENTS, ...more]});

/** Starts a server of files; returns {address, process, end(), memory()}. */
export async function serve(files, options = []) {
  const child = spawn(PROGRAM, ["view", "--no-open", "--print-address", ...options, ...files], {stdio: ["ignore", "pipe", "pipe"]});
  let text = "";
  const address = await new Promise((found, failed) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", data => {
        text += data;
        const match = text.match(/http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]+\//);
        if (match) found(match[0]);
      });
    }
    child.on("exit", code => failed(new Error(`memreel view ended with ${code}: ${text}`)));
  });
  return {
    address,
    process: child,
    end: () => { child.kill("SIGKILL"); },
    /** Returns the most memory that the server has had, in bytes. */
    memory: () => 1024 * Number(fs.readFileSync(`/proc/${child.pid}/status`, "utf8").match(/VmHWM:\s+(\d+)/)[1]),
  };
}

/** Opens a page of a server. Its `faults` collect errors, violations of the policy, dialogs and requests to others. */
export async function open(context, address, {hash = "", wait = true, faults = []} = {}) {
  const page = await context.newPage();
  page.faults = faults;
  page.on("pageerror", error => faults.push(`error: ${String(error.stack ?? error).slice(0, 500)}`));
  page.on("console", message => { if (message.type() === "error") faults.push(`console: ${message.text().slice(0, 500)}`); });
  page.on("response", answer => { if (answer.status() >= 400) faults.push(`answer: ${answer.status()} ${answer.url().slice(address.length, address.length + 200)}`); });
  page.on("dialog", dialog => { faults.push(`dialog: ${dialog.message().slice(0, 200)}`); dialog.dismiss(); });
  page.on("popup", () => faults.push("a popup was opened"));
  page.on("download", () => faults.push("a download was started"));
  page.on("request", request => {
    const url = request.url();
    if (!url.startsWith(address) && !/^(data|blob):/.test(url)) faults.push(`request: ${url.slice(0, 300)}`);
  });
  await page.addInitScript(() => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", event => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
  });
  if (FOLDER && address.startsWith("http")) await replace(page, address);
  await page.goto(address + hash, {waitUntil: wait ? "load" : "commit"});
  if (wait) await settled(page);
  return page;
}

// Answers the files of the page from a folder, with the headers of the server.
async function replace(page, address) {
  const {headers} = await fetch(address);
  const kept = Object.fromEntries([...headers].filter(([name]) => !["content-length", "content-type", "date"].includes(name)));
  await page.route(url => url.href.startsWith(address), route => {
    const name = new URL(route.request().url()).pathname.split("/").at(-1) || "index.html";
    const file = path.join(FOLDER, name);
    const kind = KINDS[path.extname(name)];
    if (!kind || !fs.existsSync(file)) return route.continue();
    return route.fulfill({body: fs.readFileSync(file), headers: {...kept, "content-type": kind}});
  });
}

/** Waits until the page is ready or says an error; returns which. It may load again at once, as when another file is read. */
export async function settled(page, timeout = 120000) {
  const state = await page.waitForFunction(() => {
    const {state} = document.documentElement.dataset;
    return window.memreel && state !== "loading" && state;
  }, null, {timeout, polling: 20});
  return state.jsonValue();
}

/** Returns all faults of a page, violations of the policy included. */
export async function faults_of(page) {
  const violations = await page.evaluate(() => window.violations ?? []);
  return [...page.faults, ...violations.map(text => `policy: ${text}`)];
}

const failures = [];

/** Notes a failure unless a condition holds. */
export function check(is_so, text) {
  if (is_so) return;
  failures.push(text);
  console.log(`FAILED: ${text}`);
}

/** Ends the script with 1 if a check failed, or else with 0. */
export function finish(name) {
  console.log(failures.length ? `${name}: ${failures.length} failures` : `${name}: passed`);
  process.exit(failures.length ? 1 : 0);
}
