// A page in one file opens from disk without a network, in every view. node offline.mjs FILE…
import {execFileSync, spawnSync} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {pathToFileURL} from "node:url";
import {PROGRAM, browser, check, faults_of, finish, open, program, serve, settled} from "./page.mjs";

const MOST_BYTES = 20e6;
const VIEWS = ["timeline", "state", "stacks", "list", "compare", "ranks", "answer"];
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "memreel-offline-"));
const chromium = await browser();
for (const file of process.argv.slice(2)) {
  const name = path.basename(file);
  const page_file = path.join(folder, `${name}.html`);
  execFileSync(PROGRAM, ["view", "--html", page_file, file], {stdio: "ignore"});
  const {size} = fs.statSync(page_file);
  check(size <= MOST_BYTES, `${name}: ${size} bytes`);
  const context = await chromium.newContext({viewport: {width: 1200, height: 750}, offline: true});
  const page = await open(context, pathToFileURL(page_file).href);
  check(await settled(page) === "ready", `${name}: ${(await page.textContent("#view")).slice(0, 200)}`);
  const server = await serve([file]);
  let files;
  do ({files} = await (await fetch(`${server.address}files`)).json()); while (files[0].state !== "ready");
  const {peak} = files[0].devices[0];
  const at_peak = await page.evaluate(event => window.memreel.totals(event), peak.moment - 1);
  for (const key of ["allocated_bytes", "active_bytes", "reserved_bytes"]) check(at_peak[key] === peak[key], `${name}: ${key} at the peak: ${at_peak[key]}, the server has ${peak[key]}`);
  server.end();
  await page.waitForSelector('.verdict[data-state="ready"]');
  const found = await page.$$eval(".verdict-line", all => all.map(of => of.textContent));
  check(found.length > 0 && found.every(line => program(file).replace(/\s+/g, " ").includes(line.replace(/\s+/g, " "))), `${name}: found ${JSON.stringify(found)}`);
  for (const [index, view] of VIEWS.entries()) {
    await page.keyboard.press(String(index + 1));
    await page.waitForTimeout(300);
    check(await settled(page) === "ready", `${name}: ${view} is not ready`);
    const error = await page.evaluate(() => document.querySelector("#view .error:not([hidden])")?.textContent ?? "");
    // What the file has not must be said; it is no fault.
    check(!error || error.includes("was left out of the file"), `${name}: ${view}: ${error}`);
  }
  const faults = await faults_of(page);
  check(!faults.length, `${name}: ${faults.slice(0, 5).join("; ")}`);
  console.log(`${name}: ${size} bytes, every view without a network`);
  await context.close();
}
// A page of ranks begins with them, and goes where its address says.
const ranks = path.join(folder, "ranks.html");
spawnSync(PROGRAM, ["ranks", "--html", ranks, process.argv[2]], {stdio: "ignore"});
for (const [hash, view] of [["", "ranks"], ["#view=state", "state"]]) {
  const page = await open(await chromium.newContext({offline: true}), pathToFileURL(ranks).href + hash);
  check(await settled(page) === "ready", `ranks.html${hash} is not ready`);
  check(await page.getAttribute(`[data-view=${view}]`, "aria-selected") === "true", `ranks.html${hash} does not begin with ${view}`);
}
await chromium.close();
fs.rmSync(folder, {recursive: true});
finish("offline");
