// The page of `memreel record --live`, while a program makes events: how late a picture is, and that a look at it is exact.
// node live.mjs FOLDER: where it builds the program and records. MEMREEL_LIVE_EVENTS is the number of events, MEMREEL_LIVE_S the time.
//
// A picture is late by the time from the moment at which the program kept blocks to the frame after the one that counts them. The
// totals of a look, which began while events were made, are those of `memreel timeline` on the snapshot of the end.
import {execFileSync, spawn} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {PROGRAM, browser, check, faults_of, finish, open, serve} from "./page.mjs";
import {compare_with_timeline, totals_of} from "./timeline.mjs";

const N_EVENTS = Number(process.env.MEMREEL_LIVE_EVENTS ?? 60000);
const SECONDS = Number(process.env.MEMREEL_LIVE_S ?? 10);
// The look begins after this part of the events; what comes before is measured.
const LOOK_AFTER = 0.6;
// The blocks that the program keeps each time.
const N_KEPT = 10;

const folder = path.resolve(process.argv[2]);
fs.rmSync(folder, {recursive: true, force: true});
fs.mkdirSync(folder, {recursive: true});
execFileSync("cc", ["-O1", "-g", "-fno-builtin", "-o", path.join(folder, "events"), path.join(import.meta.dirname, "events.c")]);

/** Starts the recording; returns {address, pid, kept, line(word), ended}. */
async function record() {
  const words = ["record", "--heap", "--live", "--print-address", "-o", "out.pickle", "--", "./events", String(N_EVENTS), String(SECONDS)];
  // A terminal of SSH: no browser is opened.
  const child = spawn(PROGRAM, words, {cwd: folder, env: {...process.env, SSH_TTY: "none", SSH_CONNECTION: ""}, stdio: ["ignore", "pipe", "pipe"]});
  const lines = [], waiting = [];
  let said = "", printed = "", found = () => {};
  const address = new Promise(is => { found = is; });
  child.stderr.on("data", data => {
    said += data;
    const match = said.match(/http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]+\//);
    if (match) found(match[0]);
  });
  child.stdout.on("data", data => {
    printed += data;
    const whole = printed.split("\n");
    printed = whole.pop();
    for (const line of whole) lines.push(line.split(" "));
    for (const wait of waiting) wait();
  });
  const ended = new Promise(is => { child.on("exit", code => is({code, said})); });
  const unexpected = ended.then(({code}) => { throw new Error(`memreel record ended with ${code}: ${said}`); });
  unexpected.catch(() => {});
  const line = word => Promise.race([unexpected, new Promise(is => {
    const look = () => { const of = lines.find(([first]) => first === word); if (of) is(of); };
    waiting.push(look);
    look();
  })]);
  const kept = () => lines.filter(([word]) => word === "kept").map(([, nth, us]) => ({nth: Number(nth), at_ms: Number(us) / 1000}));
  return {address: await Promise.race([unexpected, address]), pid: Number((await line("pid"))[1]), kept, line, ended};
}

const is_ready = page => page.waitForFunction(() => document.documentElement.dataset.state === "ready", null, {timeout: 60000});

/** Has the page note each number of blocks that it draws, and when the frame after that began. */
const watch = page => page.evaluate(() => {
  window.drawn = [];
  let before = -1;
  const frame = () => {
    const text = document.querySelector(".live-details p")?.textContent ?? "";
    const n_blocks = Number(text.match(/in ([\d,]+) blocks?/)?.[1].replaceAll(",", ""));
    if (Number.isInteger(n_blocks) && n_blocks !== before) {
      before = n_blocks;
      requestAnimationFrame(next => window.drawn.push({n_blocks, at_ms: performance.timeOrigin + next}));
    }
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
});

/** Returns how late the picture of each kept block was, in milliseconds, the least first. */
function lags(kept, drawn) {
  const base = drawn[0]?.n_blocks ?? 0;
  const shown = drawn.map(({n_blocks, at_ms}) => ({nth: Math.floor((n_blocks - base) / N_KEPT), at_ms}));
  const late = kept.map(({nth, at_ms}) => shown.find(of => of.nth >= nth)?.at_ms - at_ms);
  check(late.every(Number.isFinite), `${late.filter(ms => !Number.isFinite(ms)).length} of ${late.length} changes were never drawn`);
  return late.filter(Number.isFinite).sort((one, other) => one - other);
}

const part = (sorted, of) => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * of))]);
const sleep = ms => new Promise(done => { setTimeout(done, ms); });

const recording = await record();
const chromium = await browser();
const live = await open(await chromium.newContext(), recording.address, {wait: false});
await is_ready(live);
await live.waitForSelector(".live-details p");
// What the process allocates as it begins is counted before the blocks are.
await sleep(1500);
await watch(live);
await sleep(500);
const begun = Date.now();
fs.writeFileSync(path.join(folder, "go"), "");
await sleep(SECONDS * 1000 * LOOK_AFTER);
const kept = recording.kept();
const are_drawn = ([nth, n_kept]) => window.drawn.length > 0 && window.drawn.at(-1).n_blocks - window.drawn[0].n_blocks >= nth * n_kept;
await live.waitForFunction(are_drawn, [kept.at(-1).nth, N_KEPT], {timeout: 60000});
const late = lags(kept, await live.evaluate(() => window.drawn));
check(late.length >= SECONDS, `only ${late.length} changes were measured`);
const load = Math.round(10 * os.loadavg()[0] / os.cpus().length) / 10;
check(await live.$$eval(".live-tile", tiles => tiles.length) >= 1, "there is no chart");
check(await live.$eval(".live-details", of => of.textContent.includes("Owners")), "the owners are not shown");
// The rows name the program's lines, as `memreel watch` does, and no two of a list are equal; all lists have one column of bytes.
const lists = await live.$$eval(".live-list", all => all.map(of => ({name: of.querySelector("h3").textContent, rows: [...of.querySelectorAll("tr")].map(row => row.cells[1].textContent), left: of.querySelector("td:last-child").getBoundingClientRect().left})));
for (const {name, rows, left} of lists) {
  check(new Set(rows).size === rows.length, `${name} has equal rows: ${JSON.stringify(rows)}`);
  check(Math.abs(left - lists[0].left) < 1, `${name} begins at ${left}, not at ${lists[0].left}`);
}
check(lists.find(({name}) => name === "Largest holders")?.rows.some(row => /\(events\.c:\d+\)/.test(row)), `the program's lines are not shown: ${JSON.stringify(lists)}`);

await live.click("#pause");
await live.waitForURL(/look\/1\/$/);
const paused_ms = Date.now() - begun;
await live.waitForFunction(() => document.documentElement.dataset.state === "ready" && window.memreel, null, {timeout: 120000});
check(await live.isVisible("#follow"), "a look has no way back");
check(await live.isHidden("#end"), "a look ends the server");
const {files} = await live.evaluate(() => fetch("files").then(answer => answer.json()));
const {device, n_events: n_look} = files[0].devices[0];
const all = await totals_of(live, n_look);
// The reserved bytes of a heap are those of all pages that a file has, and a look has fewer (docs/heap.md).
delete all.reserved_bytes;
const [, n_made] = await recording.line("done");
check(Number(n_made) > 0.99 * N_EVENTS, `${n_made} events were made`);
// On a busy machine the last event may be before the look.
check(n_look > N_EVENTS / 2 && n_look <= Number(n_made), `the look has ${n_look} of ${n_made} events`);
await live.click("#follow");
await live.waitForURL(recording.address);
await is_ready(live);
const faults = await faults_of(live);

// The end is said, here by the page of another server: that of the run ends with the run.
const server = await serve(["--live", String(recording.pid)]);
const other = await open(await chromium.newContext(), server.address, {wait: false});
await other.waitForFunction(() => document.getElementById("state").textContent === "Following 1 recording.", null, {timeout: 30000});
process.kill(recording.pid, "SIGKILL");
await other.waitForFunction(() => document.getElementById("state").textContent === "All recordings have ended.", null, {timeout: 30000});
check(await other.$eval(".live-details", of => of.textContent.includes("The recording has ended")), "the end is not said");
for (const fault of [...faults, ...await faults_of(other)]) check(false, fault);
await chromium.close();
server.end();

const {code, said} = await recording.ended;
check(code === 128 + 9, `memreel record ended with ${code}: ${said}`);
const n_totals = compare_with_timeline("live", path.join(folder, "out.pickle"), device, all, true);
check(n_totals > 0.99 * n_look, `${n_totals} totals were compared, of ${n_look} events`);
console.log(JSON.stringify({
  n_events: Number(n_made), seconds: SECONDS, n_changes: late.length,
  lag_ms: {p50: part(late, 0.5), p95: part(late, 0.95), most: part(late, 1)}, load,
  n_look, look_after_ms: paused_ms, n_totals, took_s: Math.round((Date.now() - begun) / 100) / 10,
}));
finish("live");
