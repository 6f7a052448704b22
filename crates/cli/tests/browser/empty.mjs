// Files that lack something: each view says in a sentence what is missing and what to do, and a file that lacks nothing has none.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {browser, check, faults_of, finish, open, serve, settled} from "./page.mjs";

const VIEWS = ["timeline", "state", "stacks", "list", "compare", "ranks", "answer"];
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "memreel-empty-"));
const ADDRESS = 2 ** 40, MIB = 2 ** 20;

const frames = [{name: "forward", filename: "model.py", line: 5}];
const block = (of = frames) => ({size: MIB, requested_size: MIB, address: ADDRESS, state: "active_allocated", frames: of});
const segment = (of = frames) => ({address: ADDRESS, total_size: 2 * MIB, allocated_size: MIB, active_size: MIB, stream: 0, device: 0, segment_type: "small", segment_pool_id: [0, 0], is_expandable: false, frames: of,
  blocks: [block(of), {size: MIB, requested_size: 0, address: ADDRESS + MIB, state: "inactive", frames: []}]});
const events = (of = frames) => [{action: "segment_alloc", addr: ADDRESS, size: 2 * MIB, stream: 0, time_us: 5, frames: of}, {action: "alloc", addr: ADDRESS, size: MIB, stream: 0, time_us: 6, frames: of}];

const FILES = {
  "whole.json": {segments: [segment()], device_traces: [events()]},
  "no_memory.json": {segments: [], device_traces: []},
  "no_events.json": {segments: [segment()], device_traces: [[]]},
  "no_stacks.json": {segments: [segment([])], device_traces: [events([])]},
  "no_segments.json": {segments: [], device_traces: [events().slice(1)]},
  "no_history.json": {segments: [segment([])]},
};
// What each view says: a part of the sentence about what it is, and of the one about what to do. The other views say nothing of it.
const SAYS = [
  ["no_memory.json", VIEWS, "No blocks were recorded on this device", "record the process that uses this device"],
  ["no_events.json", ["timeline"], "No events were recorded, so the timeline shows only", "the memory at the end, as do State, Stacks and Blocks"],
  ["no_events.json", VIEWS, "no events", "_record_memory_history(enabled=\"all\")"],
  ["no_history.json", VIEWS, "no history: the file only has segments", "write it with torch.cuda.memory._dump_snapshot"],
  ["no_stacks.json", ["stacks"], "No blocks have stacks", "_record_memory_history(stacks=\"python\")"],
  ["no_segments.json", ["state"], "The file has no segments, so State is empty", "Timeline, Stacks and Blocks still show its blocks"],
  ["no_segments.json", VIEWS, "there are no segments", "figures are those of blocks"],
];
// The colours are by function, so that the sentence about stacks is about the view.
const HASH = "#colour=function";

async function notices(context) {
  for (const [name, snapshot] of Object.entries(FILES)) {
    const file = path.join(folder, name);
    fs.writeFileSync(file, JSON.stringify(snapshot));
    const server = await serve([file]);
    const page = await open(context, server.address, {hash: HASH});
    for (const [index, view] of VIEWS.entries()) {
      await page.keyboard.press(String(index + 1));
      await page.waitForLoadState("networkidle");
      check(await settled(page) === "ready", `${name}: ${view} is not ready`);
      const text = await page.evaluate(() => document.getElementById("notice").innerText);
      if (name === "whole.json") check(text === "", `${name}: ${view} says: ${text}`);
      for (const [of, views, what, todo] of SAYS.filter(([of]) => of === name)) {
        const is_said = text.includes(what) && text.includes(todo);
        check(is_said === views.includes(view), `${of}: ${view} ${is_said ? "says" : "does not say"} "${what}": ${text}`);
      }
    }
    await page.keyboard.press("4");
    if (name === "no_memory.json") check((await page.textContent("#view")).includes("No blocks were recorded."), `${name}: the list says nothing`);
    const faults = await faults_of(page);
    check(!faults.length, `${name}: ${faults.join("; ")}`);
    await page.close();
    server.end();
  }
}

/** A broken file beside a whole one: what it is, why, and what to do. */
async function broken(context) {
  const files = {"cut.pickle": fs.readFileSync("fixtures/torch-2.11/snapshots/oom.pickle").subarray(0, 3000), "empty.pickle": Buffer.alloc(0)};
  for (const [name, bytes] of Object.entries(files)) fs.writeFileSync(path.join(folder, name), bytes);
  const whys = {"cut.pickle": "it was cut off, perhaps while being written", "empty.pickle": "the file is empty"};
  for (const [name, why] of Object.entries(whys)) {
    for (const others of [[], ["whole.json"]]) {
      const server = await serve([name, ...others].map(of => path.join(folder, of)));
      const page = await open(context, server.address, {hash: "#"});
      check(await settled(page) === "error", `${name}: the state is not error`);
      await page.waitForLoadState("networkidle");
      await page.waitForFunction(n => document.querySelectorAll("#file option").length === n, 1 + others.length);
      if (others.length) await page.waitForFunction(() => document.querySelector("#view").innerText.includes("Select another file"), null, {timeout: 5000}).catch(() => {});
      const text = await page.textContent("#view");
      for (const part of [`${name} cannot be shown`, why, "write this file again", "memreel validate"]) check(text.includes(part), `${name}: "${part}" is missing: ${text}`);
      check(text.includes("Select another file in the bar above") === others.length > 0, `${name}: ${text}`);
      check(await page.evaluate(() => document.getElementById("notice").innerText) === "", `${name}: a notice`);
      await page.close();
      server.end();
    }
  }
}

/** Places of an address that are not there. */
async function missing(context) {
  const server = await serve([path.join(folder, "whole.json")]);
  for (const [hash, what, todo] of [["#file=3", "There is no such file", "Select a file in the bar above"], ["#device=7", "has no device", "Select a device in the bar above"]]) {
    const page = await open(context, server.address, {hash});
    const text = await page.textContent("#view");
    check(text.includes(what) && text.includes(todo), `${hash}: ${text}`);
    await page.close();
  }
  server.end();
}

const event = (action, addr, size) => ({action, addr, size, stream: 0, time_us: addr + size, frames: []});
const FAILED_REQUEST = {...event("oom", 0, 1 << 20), device_free: 0};

/** Writes a snapshot of some devices' events; returns its path. */
function written(name, traces) {
  fs.writeFileSync(path.join(folder, name), JSON.stringify({segments: [], device_traces: traces}));
  return path.join(folder, name);
}

/** A page of several files begins with the one on which a request failed, or else the one with the highest peak, unless it has an address. */
async function several(context) {
  const [low, high] = [512, 1024].map(size => written(`${size}.json`, [[event("alloc", 4096, size)]]));
  const failed = written("request.json", [[event("alloc", 8192, 512), FAILED_REQUEST]]);
  for (const [files, hash, file] of [[[low, high, failed], "", 2], [[low, path.join(folder, "cut.pickle"), high], "", 2], [[low, low], "", 0], [[low, high, failed], "#", 0], [[low, high, failed], "#file=1", 1]]) {
    const server = await serve(files);
    const page = await open(context, server.address, {hash});
    const what = `${files.map(of => path.basename(of))} at "${hash}"`;
    await page.waitForFunction(n => document.querySelectorAll("#file option").length === n && ![...document.querySelectorAll("#file option")].some(of => of.textContent.includes("reading")), files.length);
    await page.waitForFunction(file => document.getElementById("file").value === file, String(file), {timeout: 5000}).catch(() => {});
    check(await page.inputValue("#file") === String(file), `${what}: file ${await page.inputValue("#file")} is shown`);
    const [address, n_entries, said] = await page.evaluate(() => [location.hash, history.length, document.getElementById("message").textContent]);
    check(address === (file ? `#file=${file}` : ""), `${what}: the address ${address}`);
    check(n_entries === 2, `${what}: ${n_entries} entries of the history`);
    check(said.includes("cut.pickle cannot be shown") === files[1].includes("cut"), `${what}: "${said}" is said`);
    // The first file can be chosen, and stays after a reload.
    await page.selectOption("#file", "0");
    await page.waitForFunction(() => !location.hash.includes("file="));
    await page.reload();
    await settled(page);
    check(await page.inputValue("#file") === "0" || !file, `${what}: after a reload, file ${await page.inputValue("#file")} is shown`);
    await page.close();
    server.end();
  }
}

/** A page begins with the device on which a request failed, unless its address names one. */
async function failed(context) {
  written("failed.json", [[event("alloc", 4096, 512)], [event("alloc", 8192, 512), FAILED_REQUEST]]);
  const server = await serve([path.join(folder, "failed.json")]);
  for (const [hash, device] of [["", "1"], ["#device=0", "0"], ["#view=state&cursor=1", "0"]]) {
    const page = await open(context, server.address, {hash});
    const [shown, names] = await page.evaluate(() => [document.getElementById("device").value, document.getElementById("device").innerText]);
    check(shown === device && names.includes("1 (OOM)") && !names.includes("0 (OOM)"), `${hash}: device ${shown} of ${names}`);
    const [address, n_entries] = await page.evaluate(() => [location.hash, history.length]);
    check(address === (hash || "#device=1") && n_entries === 2, `${hash}: the address ${address}, ${n_entries} entries of the history`);
    await page.close();
  }
  server.end();
}

const chromium = await browser();
const context = await chromium.newContext({viewport: {width: 1200, height: 750}});
await notices(context);
await broken(context);
await missing(context);
await failed(context);
await several(context);
await chromium.close();
fs.rmSync(folder, {recursive: true});
finish("empty");
