// Using the page that has memreel in it: dropping, keys, a phone's width, old addresses, and files that cannot be read.
// node web_use.mjs PAGE FILE FILE; MEMREEL_WEB_BROWSERS names the browsers.
import {execFileSync} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {gzipSync} from "node:zlib";
import {check, finish} from "./page.mjs";
import {close, drop, launch, open, ready} from "./web_page.mjs";

const [own_page, first, second] = process.argv.slice(2);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "memreel-web-use-"));
const here = path.dirname(new URL(import.meta.url).pathname);
const VIEWS = ["timeline", "state", "stacks", "list", "compare", "ranks"];

/** Writes a file; returns its path. */
function written(name, bytes) {
  fs.writeFileSync(path.join(folder, name), bytes);
  return path.join(folder, name);
}

const text_of = (page, selector) => page.$eval(selector, found => found.textContent);
const files_of = page => page.evaluate(() => window.memreel.source.files().then(answer => answer.files));

/** Waits until a view is shown and the address has it: the page writes the address a little later, once for several changes. */
const in_view = (page, view) => page.waitForFunction(view => {
  const is_chosen = document.querySelector(`[data-view=${view}]`)?.getAttribute("aria-selected") === "true";
  const addressed = new URLSearchParams(location.hash.slice(1)).get("view") ?? "timeline";
  return document.documentElement.dataset.state === "ready" && is_chosen && addressed === view;
}, {}, view);

/** Nothing was asked of a network, and no fault was seen. */
function sound(page, what, known = []) {
  check(!page.requests.length, `${what}: requests: ${page.requests.slice(0, 3)}`);
  const faults = page.faults.filter(fault => !known.some(text => fault.includes(text)));
  check(!faults.length, `${what}: ${faults.slice(0, 5).join("; ")}`);
}

async function keys_and_history(browser) {
  const page = await open(browser, own_page, {hash: "#view=state&cursor=100"});
  await page.keyboard.press("Tab");
  const reached = [];
  for (let n = 0; n < 30 && !reached.includes("primary"); n += 1) {
    reached.push(await page.evaluate(() => document.activeElement?.className));
    await page.keyboard.press("Tab");
  }
  check(reached.includes("primary"), `the keyboard does not reach the button that opens files: ${reached}`);
  await drop(page, [first]);
  await ready(page);
  check(await page.evaluate(() => /view=state&cursor=100|cursor=100.*view=state/.test(location.hash)), "an old address lost its view or cursor");
  await in_view(page, "state");
  await page.evaluate(() => document.activeElement?.blur?.());
  for (const [index, view] of VIEWS.entries()) {
    await page.keyboard.press(String(index + 1));
    await in_view(page, view);
  }
  await page.evaluate(() => history.back());
  await page.waitForFunction(() => !location.hash.includes("view=ranks"));
  const before = await page.evaluate(() => location.hash);
  check(before.includes("view=compare"), `back leads to ${before}`);
  await page.evaluate(() => history.forward());
  await in_view(page, "ranks");
  // A compressed file is opened as the one in it.
  await drop(page, [written("small.pickle.gz", gzipSync(fs.readFileSync(second)))]);
  await page.waitForFunction(() => window.memreel.source.files().then(({files}) => files[1]?.state === "ready"));
  check((await files_of(page))[1].name === "small.pickle", `a compressed file: ${(await files_of(page))[1].name}`);
  sound(page, "keys");
  await page.close();
}

async function phone(browser) {
  const page = await open(browser, own_page);
  await page.setViewport({width: 390, height: 844});
  const wide = () => page.evaluate(() => document.scrollingElement.scrollWidth);
  check(await wide() <= 390, `the first screen is ${await wide()} wide on a phone`);
  const seen = await page.$eval(".first .primary", found => { const {top, bottom} = found.getBoundingClientRect(); return top >= 0 && bottom <= innerHeight; });
  check(seen, "the first screen's button is outside of a phone's screen");
  await drop(page, [first, second]);
  await ready(page);
  check(await page.$eval("#file", of => of.value) === "1", "the page does not begin with the rank that ran out of memory");
  check(await wide() <= 390, `the page is ${await wide()} wide on a phone`);
  sound(page, "phone");
  await page.close();
}

async function broken(browser) {
  const large = written("large.pickle", "");
  fs.truncateSync(large, 3 * 2 ** 30);
  const page = await open(browser, own_page);
  const files = [first, written("notes.pickle", "my notes"), second, written("-x.txt", "\0\0"), written("empty.pickle", ""), written("cut.pickle", fs.readFileSync(first).subarray(0, 50_000)), large, first];
  await drop(page, files);
  await ready(page);
  const found = await files_of(page);
  const [one, , two, , , , full, again] = found;
  check([one, two, again].every(file => file.state === "ready"), `sound files beside broken ones are not open: ${JSON.stringify(found.map(file => file.state))}`);
  check(found.filter(file => file.state === "failed").length === 5, `not all broken files failed: ${JSON.stringify(found.map(file => file.state))}`);
  check(/more memory than a web page can use/.test(full.error), `3 GiB: ${full.error}`);
  check(again.name !== one.name && !found.some(file => file.name.startsWith("-")), `names: ${found.map(file => file.name)}`);
  await page.select("#file", "1");
  await page.waitForFunction(() => document.querySelector(".failure"));
  check(/cannot be shown/.test(await text_of(page, "#view")), "a broken file is shown");
  const printed = await page.evaluate(name => window.memreel.source.command(["top", name]), found[1].name);
  check(printed.status === 3 && printed.stderr.startsWith("memreel: "), `a command on a broken file: ${JSON.stringify(printed)}`);
  // Dropped while others are read.
  await drop(page, [second]);
  await drop(page, [first]);
  await ready(page);
  check((await files_of(page)).length === files.length + 2, "files that were dropped while others were read are missing");
  // The module stops for a defect: the page says at which file, and goes on.
  await page.evaluate(() => {
    const post = Worker.prototype.postMessage;
    Worker.prototype.postMessage = function(message) {
      post.call(this, message);
      if (message.open?.[0].failed) Worker.prototype.postMessage = post;
      else if (message.open) this.onmessage({data: {trap: "RuntimeError: unreachable", stderr: "", reading: 0}});
    };
  });
  await drop(page, [second]);
  await page.waitForFunction(() => window.memreel.source.files().then(({files}) => files[0].state === "failed"));
  await ready(page);
  const after = await files_of(page);
  check(/bug in memreel/.test(after[0].error) && after[2].state === "ready", `after a defect: ${JSON.stringify(after.map(file => file.state))}`);
  sound(page, "broken");
  await page.close();
}

async function downloads(browser) {
  const page = await open(browser, own_page);
  await drop(page, [first]);
  await ready(page);
  const titles = await page.$$eval(".web option", options => options.slice(1).map(option => option.textContent));
  for (const [index, title] of titles.entries()) {
    await page.waitForFunction(() => !document.querySelector(".web select").disabled);
    await page.select(".web select", String(index));
    await page.waitForFunction(() => /^Saved |: /.test(document.getElementById("message").textContent) && !document.getElementById("message").textContent.endsWith("writing…"));
    const text = await text_of(page, "#message");
    check(text.startsWith("Saved "), `${title}: ${text}`);
    await page.evaluate(() => { document.getElementById("message").textContent = ""; });
  }
  sound(page, "downloads");
  // A command that is stopped: before it begins, and when its worker has just been told of it.
  for (const is_begun of [false, true]) {
    const stopped = await page.evaluate(async is_begun => {
      const controller = new AbortController();
      const stop = () => controller.abort(new Error("stopped"));
      const {files} = await window.memreel.source.files();
      const post = Worker.prototype.postMessage;
      Worker.prototype.postMessage = function(message) {
        post.call(this, message);
        if (message.words) stop();
      };
      if (!is_begun) stop();
      const answer = window.memreel.source.command(["replay", "--sweep", files[0].name], {signal: controller.signal});
      return answer.then(() => "ended", error => error.message).finally(() => { Worker.prototype.postMessage = post; });
    }, is_begun);
    check(stopped === "stopped", `a command that was stopped ${is_begun ? "after" : "before"} its beginning: ${stopped}`);
  }
  await page.close();
}

async function without_module(browser) {
  const page = await open(browser, own_page, {before: () => { delete globalThis.WebAssembly; }});
  await drop(page, [first]);
  await page.waitForFunction(() => document.querySelector(".failure"));
  check(/no WebAssembly/.test(await text_of(page, "#view")), `without WebAssembly: ${await text_of(page, "#view")}`);
  await page.close();
}

async function hostile(browser) {
  const names = path.join(folder, "hostile");
  fs.mkdirSync(names);
  execFileSync("python3", [path.join(here, "hostile.py"), names]);
  const page = await open(browser, own_page);
  await drop(page, fs.readdirSync(names).map(name => path.join(names, name)));
  await ready(page);
  for (const [index] of (await files_of(page)).entries()) {
    await page.select("#file", String(index));
    await page.evaluate(() => document.activeElement?.blur?.());
    for (const key of ["1", "2", "3", "4", "5", "6"]) {
      await page.keyboard.press(key);
      await new Promise(done => setTimeout(done, 150));
    }
  }
  const ran = await page.evaluate(() => ({ran: window.__ran, own: Object.keys(Object.prototype), frames: frames.length, elements: document.querySelectorAll("body iframe, body img, body base, body meta, [onerror], [onmouseover], body style").length}));
  check(ran.ran === undefined && !ran.own.length && !ran.frames && !ran.elements, `hostile names: ${JSON.stringify(ran)}`);
  sound(page, "hostile");
  await page.close();
}

for (const kind of (process.env.MEMREEL_WEB_BROWSERS ?? "chrome,firefox").split(",")) {
  const browser = await launch(kind);
  for (const part of [keys_and_history, phone, broken, downloads, without_module, hostile]) {
    const begin = performance.now();
    try {
      await part(browser);
    } catch (error) {
      check(false, `${kind}: ${part.name}: ${error.stack}`);
    }
    console.log(`${kind}: ${part.name} (${Math.round(performance.now() - begin)} ms)`);
  }
  await close(browser);
}
fs.rmSync(folder, {recursive: true});
finish("web_use");
