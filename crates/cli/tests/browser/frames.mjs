// How long a file takes to be seen, and how smoothly it moves. node frames.mjs FILE…: one line of JSON a file.
import fs from "node:fs";
import path from "node:path";
import {browser, check, faults_of, finish, open, serve} from "./page.mjs";
import * as memory_viz from "./memory_viz.mjs";

const N_FRAMES = 200;
// PyTorch's viewer is not asked for files of more bytes.
const MOST_BYTES = 200e6;
const quantile = (numbers, share) => [...numbers].sort((one, other) => one - other)[Math.min(numbers.length - 1, Math.floor(numbers.length * share))];
const rounded = number => Math.round(number * 10) / 10;

// In the page before its own scripts: when it first painted something in the view, and when it was ready.
function watch() {
  window.marks = {};
  const look = () => {
    if (!window.marks.first && [...document.querySelectorAll("#view canvas")].some(painted)) window.marks.first = performance.now();
    if (document.documentElement.dataset.state === "ready" && !window.marks.ready) window.marks.ready = performance.now();
    if (!window.marks.ready || !window.marks.first) requestAnimationFrame(look);
  };
  // A canvas of two colours shows nothing yet: the paper and the part that is not read.
  const painted = canvas => {
    if (!canvas.width || !canvas.height) return false;
    const small = new OffscreenCanvas(64, 64).getContext("2d");
    small.drawImage(canvas, 0, 0, 64, 64);
    return new Set(new Uint32Array(small.getImageData(0, 0, 64, 64).data.buffer)).size > 2;
  };
  requestAnimationFrame(look);
}

// Turns the wheel and drags with the mouse, over about N_FRAMES frames; returns the intervals between frames.
async function move(page) {
  const boxes = await Promise.all((await page.locator("#view canvas").all()).map(of => of.boundingBox()));
  const box = boxes.filter(Boolean).reduce((best, of) => (of.width * of.height > best.width * best.height ? of : best));
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  await page.mouse.move(x, y);
  await page.evaluate(() => {
    window.intervals = [];
    let last = null;
    const note = now => {
      if (!window.intervals) return;
      if (last !== null) window.intervals.push(now - last);
      last = now;
      requestAnimationFrame(note);
    };
    requestAnimationFrame(note);
  });
  for (let step = 0; (await page.evaluate(() => window.intervals.length)) < N_FRAMES; step += 1) {
    const phase = step % 40;
    if (phase < 15) await page.mouse.wheel(0, step % 80 < 40 ? -120 : 120);
    else if (phase === 15) await page.mouse.down();
    else if (phase < 39) await page.mouse.move(x + (phase - 15) * (step % 80 < 40 ? 8 : -8), y);
    else { await page.mouse.up(); await page.mouse.move(x, y); }
  }
  await page.mouse.up();
  return page.evaluate(() => {
    const {intervals} = window;
    window.intervals = null;
    return intervals;
  });
}

async function measure(chromium, file) {
  const server = await serve([file]);
  const context = await chromium.newContext({viewport: {width: 1400, height: 900}});
  await context.addInitScript(watch);
  const faults = [];
  const start = Date.now();
  const opened = await open(context, server.address, {wait: false, faults});
  await opened.waitForFunction(() => window.marks.ready && window.marks.first, null, {timeout: 300000});
  const marks = await opened.evaluate(() => window.marks);
  const all_ms = Date.now() - start;
  await opened.waitForLoadState("networkidle");
  const {files} = await opened.evaluate(() => fetch("files").then(answer => answer.json()));
  const times = await move(opened);
  const stats = await opened.evaluate(() => window.memreel.stats());
  const session = await context.newCDPSession(opened);
  await session.send("Performance.enable");
  const {metrics} = await session.send("Performance.getMetrics");
  const problems = await faults_of(opened);
  check(!problems.length, `${file}: ${problems.slice(0, 3).join("; ")}`);
  check(stats.frames_ms.length > 50, `${file}: the page painted ${stats.frames_ms.length} frames`);
  const figures = {
    file: path.basename(file), bytes: fs.statSync(file).size, n_events: files[0].devices.reduce((sum, of) => sum + of.n_events, 0),
    first_picture_ms: Math.round(marks.first), ready_ms: Math.round(marks.ready), all_ms,
    frame_median_ms: rounded(quantile(times, 0.5)), frame_p95_ms: rounded(quantile(times, 0.95)),
    painting_median_ms: rounded(quantile(stats.frames_ms, 0.5)), painting_p95_ms: rounded(quantile(stats.frames_ms, 0.95)), n_pictures: stats.n_pictures,
    page_heap_bytes: metrics.find(({name}) => name === "JSHeapUsedSize").value, server_memory_bytes: server.memory(),
  };
  await context.close();
  server.end();
  return figures;
}

async function theirs(chromium, file) {
  const viewer = await memory_viz.load(chromium, file);
  const session = await viewer.page.context().newCDPSession(viewer.page);
  await session.send("Performance.enable");
  const {metrics} = await session.send("Performance.getMetrics");
  await viewer.end();
  return {viewer_load_ms: viewer.load_ms, viewer_heap_bytes: metrics.find(({name}) => name === "JSHeapUsedSize").value};
}

const chromium = await browser();
for (const file of process.argv.slice(2)) {
  const figures = await measure(chromium, file);
  if (memory_viz.is_there() && figures.bytes <= MOST_BYTES) Object.assign(figures, await theirs(chromium, file).catch(error => ({viewer_error: error.message.slice(0, 200)})));
  console.log(JSON.stringify(figures));
}
await chromium.close();
finish("frames");
