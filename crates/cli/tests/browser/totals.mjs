// Totals after events, as the page gives them, equal those of `memreel timeline` and of PyTorch's viewer; states equal `memreel at`.
// node totals.mjs FILE…: every event of each file, or every 1,000th of a file of more than 100,000.
import path from "node:path";
import {browser, check, faults_of, finish, open, program, serve} from "./page.mjs";
import * as memory_viz from "./memory_viz.mjs";
import {compare_with_timeline, totals_of} from "./timeline.mjs";

const N_STATES = 40;

/**
 * Compares with PyTorch's viewer after each of its events. Its "allocated" includes blocks whose free is pending, as our active
 * bytes do. A request to free and its completion are one event there; the moment between the two is compared with timeline alone.
 */
async function compare_with_memory_viz(chromium, name, file, device, all, step) {
  const viewer = await memory_viz.load(chromium, file);
  const theirs = await memory_viz.totals(viewer, device, step);
  await viewer.end();
  check(theirs.at(-1)?.[0] === all.active_bytes.length - 2, `${name}: the last event of PyTorch's viewer is ${theirs.at(-1)?.[0]}`);
  const wrong = theirs.filter(([event, allocated, reserved]) => all.active_bytes[event + 1] !== allocated || all.reserved_bytes[event + 1] !== reserved);
  const [first] = wrong;
  check(!wrong.length, `${name}: ${wrong.length} of ${theirs.length} totals differ from PyTorch's viewer, first after event ${first?.[0]}: viewer ${first?.slice(1)}, page active ${all.active_bytes[first?.[0] + 1]} allocated ${all.allocated_bytes[first?.[0] + 1]} reserved ${all.reserved_bytes[first?.[0] + 1]}`);
  return theirs.length;
}

/** Compares the view of the state at some events with `memreel at`. */
async function compare_states(page, name, file, {device, n_events}) {
  const events = [...new Set(Array.from({length: N_STATES}, (_, index) => Math.floor((index * (n_events - 1)) / (N_STATES - 1))))].filter(event => event >= 0);
  await page.evaluate(() => { location.hash += "&view=state"; });
  await page.keyboard.press("2");
  for (const event of events) {
    await page.evaluate(of => window.memreel.goto(of), event);
    await page.waitForFunction(moment => document.querySelector(".allocator")?.dataset.moment === String(moment), event + 1);
    const shown = await page.$eval(".allocator", view => ({...view.dataset}));
    const truth = JSON.parse(program("at", String(event), "--json", "--device", String(device), file).trim());
    const blocks = truth.segments.flatMap(of => of.blocks);
    const pairs = [
      ["allocated", truth.allocated_bytes], ["active", truth.active_bytes], ["reserved", truth.reserved_bytes],
      ["segments", truth.segments.length], ["blocks", blocks.length],
      ["drawnBytes", blocks.reduce((sum, of) => sum + of.bytes, 0)], ["drawnReserved", truth.segments.reduce((sum, of) => sum + of.bytes, 0)],
    ];
    for (const [key, value] of pairs) check(Number(shown[key]) === value, `${name}: state after event ${event}: ${key}: page ${shown[key]}, at ${value}`);
    await compare_layout(page, name, truth, device, event);
  }
  return events.length;
}

// The very blocks and segments that the view was given, one by one.
async function compare_layout(page, name, truth, device, event) {
  const got = await page.evaluate(([device, moment]) => fetch(`state?file=0&device=${device}&moment=${moment}`).then(answer => answer.json()), [device, event + 1]);
  const ours = got.segments.map(of => [Number(of.address), of.bytes, of.stream, of.is_expandable, ...of.blocks.flatMap(([, offset, bytes, requested, pending]) => [offset, bytes, requested, Boolean(pending)])].join());
  const theirs = truth.segments.map(of => [of.address, of.bytes, of.stream, of.is_expandable, ...of.blocks.flatMap(block => [block.address - of.address, block.bytes, block.requested_bytes, block.is_pending])].join());
  const missing = theirs.filter(line => !ours.includes(line));
  check(!missing.length && ours.length === theirs.length, `${name}: state after event ${event}: ${ours.length} and ${theirs.length} segments; differs: ${missing[0]?.slice(0, 200)} / ${ours.find(line => !theirs.includes(line))?.slice(0, 200)}`);
}

const chromium = await browser();
if (!memory_viz.is_there()) console.log("skipped: PyTorch's viewer is not in the folder of the browser; totals are compared with memreel's commands alone");
for (const file of process.argv.slice(2)) {
  const name = path.basename(file);
  const server = await serve([file]);
  const page = await open(await chromium.newContext(), server.address);
  const {files} = await page.evaluate(() => fetch("files").then(answer => answer.json()));
  for (const device of files[0].devices ?? []) {
    const {n_events} = device;
    if (!n_events) { console.log(`${name}, device ${device.device}: no events`); continue; }
    await page.evaluate(hash => { location.hash = hash; }, `#device=${device.device}`);
    const all = await totals_of(page, n_events);
    for (const event of [0, n_events >> 1, n_events - 1]) {
      const one = await page.evaluate(of => window.memreel.totals(of), event);
      check(one.active_bytes === all.active_bytes[event + 1] && one.reserved_bytes === all.reserved_bytes[event + 1] && one.event === event, `${name}: totals(${event})`);
    }
    const step = n_events > 100000 ? 1000 : 1;
    const n_rows = compare_with_timeline(name, file, device.device, all);
    const n_theirs = memory_viz.is_there() ? await compare_with_memory_viz(chromium, name, file, device.device, all, step) : "no";
    const n_states = await compare_states(page, name, file, device);
    console.log(`${name}, device ${device.device}: ${n_rows} totals as timeline, ${n_theirs} as PyTorch's viewer, ${n_states} states as at`);
  }
  const faults = await faults_of(page);
  check(!faults.length, `${name}: ${faults.slice(0, 5).join("; ")}`);
  server.end();
}
await chromium.close();
finish("totals");
