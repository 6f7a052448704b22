// Hostile names and broken files: nothing of them runs, the layout holds, and the page says what is wrong.
import {execFileSync} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {browser, check, faults_of, finish, open, serve, settled} from "./page.mjs";

const VIEWS = ["timeline", "state", "stacks", "list", "compare", "ranks", "answer"];
const COLOURS = ["stack", "function", "owner", "pool", "stream", "scope"];
const WIDTHS = [1200, 700];
const here = path.dirname(new URL(import.meta.url).pathname);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "memreel-hostile-"));

/** Sees every view of a page, with a block pinned, each colouring, the copies and the dialogs. */
async function visit(page, name) {
  for (const [index, view] of VIEWS.entries()) {
    await page.keyboard.press(String(index + 1));
    await page.waitForLoadState("networkidle");
    check(await settled(page) === "ready", `${name}: ${view} is not ready`);
    await page.evaluate(async () => {
      const [file, device] = ["file", "device"].map(id => document.getElementById(id).value || 0);
      const {rows} = await fetch(`list?file=${file}&device=${device}&count=200`).then(answer => answer.json());
      for (const {address} of rows) await window.memreel.select(address).catch(() => {});
    });
    for (const width of WIDTHS) {
      await page.setViewportSize({width, height: 750});
      await page.waitForFunction(of => innerWidth === of && document.scrollingElement.scrollWidth <= of, width, {timeout: 3000}).catch(() => {});
      const [wide, what] = await page.evaluate(of => [document.scrollingElement.scrollWidth, [...document.querySelectorAll("body *")].filter(one => one.getBoundingClientRect().right > of + 1).map(one => `${one.tagName}.${one.className}`).slice(0, 6)], width);
      check(wide <= width, `${name}: ${view} is ${wide} wide in a window of ${width}: ${what}`);
    }
    await page.setViewportSize({width: WIDTHS[0], height: 750});
    for (let x = 100; x < 900; x += 160) await page.mouse.move(x, 300);
  }
  await page.keyboard.press("1");
  for (const _ of COLOURS) {
    await page.keyboard.press("c");
    await page.waitForTimeout(100);
  }
  await page.keyboard.press("?");
  await page.keyboard.press("Escape");
}

/** Nothing of the names has run, and nothing was asked of others. */
async function sound(page, name) {
  const ran = await page.evaluate(() => ({ran: window.__ran, own: Object.keys(Object.prototype), polluted: {}.polluted, frames: frames.length, scripts: document.scripts.length}));
  check(ran.ran === undefined, `${name}: a name ran`);
  check(!ran.own.length && ran.frames === 0 && ran.scripts === 1, `${name}: ${JSON.stringify(ran)}`);
  const elements = await page.evaluate(() => document.querySelectorAll("body iframe, body img, body base, body meta, body svg [onload], [onerror], [onmouseover], body style").length);
  check(elements === 0, `${name}: ${elements} elements came from a name`);
  const faults = await faults_of(page);
  check(!faults.length, `${name}: ${[...new Set(faults)].slice(0, 5).join("; ")}`);
}

/** A hash of the address can be hostile as well. */
const HASHES = ["#view=__proto__", "#search=%3Cimg%20src%3Dx%20onerror%3Dwindow.__ran%3D1%3E", "#scope=%3Cscript%3Ewindow.__ran%3D1%3C/script%3E&colour=constructor", "#range=1e999,NaN&cursor=99999999999999&life=999999999", "#owner=%ff%fe&pool=%00"];

async function addresses(context, file) {
  const server = await serve([file]);
  for (const hash of HASHES) {
    const page = await open(context, server.address, {hash, wait: false});
    await settled(page);
    await page.waitForLoadState("networkidle");
    // An answer of 400 or 404 to what the address asks is no fault.
    page.faults = page.faults.filter(text => !/status of 40[04]|answer: 40[04]/.test(text));
    await sound(page, `address ${hash}`);
    await page.close();
  }
  server.end();
}

/** Broken files: the page says why. */
async function broken(context) {
  const sound_file = fs.readFileSync("fixtures/torch-2.11/snapshots/oom.pickle");
  const cases = {
    "empty.pickle": Buffer.alloc(0), "text.pickle": Buffer.from("no snapshot\n"), "cut.pickle": sound_file.subarray(0, sound_file.length >> 1),
    "zeros.pickle": Buffer.alloc(1000), "page.json": Buffer.from("<!doctype html><script>window.__ran=1</script>"), "list.json": Buffer.from("[1, 2"),
    "system.pickle": Buffer.from("cos\nsystem\n(S'touch /tmp/memreel-ran'\ntR."), "binary.pickle": Buffer.from(Array.from({length: 5000}, (_, at) => (at * 7919) & 255)),
  };
  for (const [name, bytes] of Object.entries(cases)) {
    const file = path.join(folder, name);
    fs.writeFileSync(file, bytes);
    const server = await serve([file]);
    const page = await open(context, server.address);
    check(await settled(page) === "error", `${name}: the state is not error`);
    const text = await page.textContent("#view");
    check(text.includes(name) && text.trim().length > name.length + 30, `${name}: the page says: ${text.slice(0, 200)}`);
    console.log(`  ${text.replaceAll("\n", " ").slice(0, 160)}`);
    await sound(page, name);
    await page.close();
    server.end();
  }
}

/** One socket listens, on 127.0.0.1, while two pages look at two files. */
async function two_pages(context, file) {
  const server = await serve([file, "fixtures/torch-2.11/snapshots/oom_fragment.pickle"]);
  const pages = await Promise.all(["#", "#file=1&view=state"].map(hash => open(context, server.address, {hash})));
  await Promise.all(pages.map((page, at) => visit(page, `page ${at} of two`)));
  for (const page of pages) await sound(page, "two pages");
  const own = new Set(fs.readdirSync(`/proc/${server.process.pid}/fd`).map(fd => { try { return fs.readlinkSync(`/proc/${server.process.pid}/fd/${fd}`); } catch { return ""; } }));
  const listening = ["tcp", "tcp6", "udp", "udp6"].flatMap(kind => fs.readFileSync(`/proc/${server.process.pid}/net/${kind}`, "utf8").split("\n").slice(1)
    .map(line => line.trim().split(/\s+/)).filter(of => (kind.startsWith("udp") || of[3] === "0A") && own.has(`socket:[${of[9]}]`)).map(of => of[1]));
  const port = Number(new URL(server.address).port).toString(16).toUpperCase().padStart(4, "0");
  check(listening.join() === `0100007F:${port}`, `listening sockets: ${listening}`);
  for (const page of pages) await page.close();
  server.end();
}

execFileSync("python3", [path.join(here, "hostile.py"), folder]);
const chromium = await browser();
const context = await chromium.newContext({viewport: {width: WIDTHS[0], height: 750}});
const files = fs.readdirSync(folder).map(name => path.join(folder, name));
for (const list of [...files.map(file => [file]), files]) {
  const name = list.length > 1 ? "all files" : JSON.stringify(path.basename(list[0]));
  const server = await serve(list);
  const page = await open(context, server.address);
  const state = await settled(page);
  if (state === "ready") await visit(page, name);
  // JSON of invalid surrogates has no meaning; the page says so, as of other broken files.
  else check(name.includes("surrogates") && (await page.textContent("#view")).includes("not valid JSON"), `${name}: ${(await page.textContent("#view")).slice(0, 300)}`);
  await sound(page, name);
  console.log(`${name}: seen in every view`);
  await page.close();
  server.end();
}
await addresses(context, files.find(file => file.endsWith("short.pickle")));
await broken(context);
await two_pages(context, files.find(file => file.endsWith("long.pickle")));
await chromium.close();
fs.rmSync(folder, {recursive: true});
finish("hostile");
