// PyTorch's own viewer in headless Chromium: the totals that it computes after events of a snapshot.
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import {CACHE} from "./page.mjs";

/** Says whether the folder of the browser has PyTorch's viewer too. */
export const is_there = () => ["page.html", "bundle.js"].every(name => fs.existsSync(path.join(CACHE, name)));

/** Serves the viewer and a snapshot; returns {address, end()}. */
async function serve(snapshot) {
  const server = http.createServer((request, answer) => {
    const file = request.url === "/snapshot" ? snapshot : path.join(CACHE, path.basename(request.url));
    if (!fs.existsSync(file)) return answer.writeHead(404).end();
    answer.writeHead(200, {"content-type": {".js": "text/javascript", ".html": "text/html"}[path.extname(file)] ?? "application/octet-stream"});
    return fs.createReadStream(file).pipe(answer);
  }).listen(0, "127.0.0.1");
  await new Promise(done => server.on("listening", done));
  return {address: `http://127.0.0.1:${server.address().port}`, end: () => server.close()};
}

/** Drops a snapshot on the viewer; returns {page, load_ms, devices, end()}. */
export async function load(browser, snapshot, timeout = 600000) {
  const server = await serve(snapshot);
  const page = await browser.newPage();
  page.setDefaultTimeout(timeout);
  // Scrolling to the event lays out the list of all events again and computes nothing.
  await page.addInitScript(() => { Element.prototype.scrollIntoViewIfNeeded = () => {}; });
  await page.goto(`${server.address}/page.html`);
  const start = Date.now();
  await page.evaluate(async () => {
    const bytes = await (await fetch("/snapshot")).arrayBuffer();
    const files = new DataTransfer();
    files.items.add(new File([bytes], "snapshot.pickle"));
    document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: files, bubbles: true, cancelable: true}));
  });
  await page.waitForFunction(() => document.querySelectorAll("select")[2]?.options.length > 0, null, {polling: 50, timeout});
  const load_ms = Date.now() - start;
  const devices = await page.$$eval("select", all => [...all[2].options].map(of => Number(of.value)));
  return {page, load_ms, devices, end: async () => { await page.close(); server.end(); }};
}

/** Returns [event, allocated bytes, reserved bytes] as the viewer shows them, after the last and every `step`th event. */
export function totals({page}, device, step) {
  return page.evaluate(async ([device, step]) => {
    const selects = document.querySelectorAll("select");
    selects[2].value = device;
    selects[1].value = "Allocator State History";
    selects[1].dispatchEvent(new Event("change"));
    await new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)));
    const view = [...document.querySelectorAll("body > div")].find(of => !/display: none/.test(of.getAttribute("style") ?? "") && of.querySelector("svg"));
    const list = [...view.querySelectorAll("div")].find(of => of.style.overflow === "auto" && of.style.fontFamily === "monospace");
    const info = view.querySelector(":scope pre[style*='grid-row: 2']");
    const all = [];
    // The viewer shows a request to free and its completion right after it as one event, "free".
    let event = -1;
    let next = 0;
    for (const entry of list.children) {
      event += entry.__data__.action === "free" ? 2 : 1;
      if (event < next && entry !== list.lastChild) continue;
      next += step;
      entry.dispatchEvent(new MouseEvent("mousedown", {bubbles: true}));
      const found = info.textContent.match(/^\(.*?\((\d+) bytes\) allocated \/ .*?\((\d+) bytes\) reserved\)/);
      all.push([event, found ? Number(found[1]) : null, found ? Number(found[2]) : null]);
    }
    return all;
  }, [device, step]);
}
