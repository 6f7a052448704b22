// A tour by keyboard alone: every view of several recordings, with a screenshot of each.
// node tour.mjs FOLDER [NAME=FILE[,FILE…]]…: without files, the project's own snapshots.
import fs from "node:fs";
import path from "node:path";
import {browser, check, faults_of, finish, open, serve, settled} from "./page.mjs";

const VIEWS = ["timeline", "state", "stacks", "list", "compare", "ranks", "answer"];
const OURS = "fixtures/torch-2.11/snapshots";
const [folder, ...words] = process.argv.slice(2);
const scenes = words.length ? words : [`oom=${OURS}/oom_fragment.pickle`, `stacks=${OURS}/transformer_all_stacks.pickle`];
fs.mkdirSync(folder, {recursive: true});

/** Presses keys one after another and waits until the page is quiet. */
async function press(page, ...keys) {
  for (const key of keys) await page.keyboard.press(key);
  await quiet(page);
}

// Until no answer has come for a while.
async function quiet(page) {
  await page.waitForLoadState("networkidle");
  await page.waitForTimeout(300);
}

const state_of = page => page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.slice(1))));

/** Reaches every view, and in each what the keys do there. */
async function tour(page, name) {
  const shot = what => page.screenshot({path: path.join(folder, `${name}-${what}.png`)});
  for (const [index, view] of VIEWS.entries()) {
    await press(page, String(index + 1));
    check(await settled(page) === "ready", `${name}: ${view} is not ready`);
    check(await page.getAttribute(`[data-view=${view}]`, "aria-selected") === "true", `${name}: key ${index + 1} does not open ${view}`);
    await shot(view);
  }
  await press(page, "1", "End");
  const before = await state_of(page);
  await press(page, "k", "[", "[", "]");
  await page.waitForTimeout(700);
  const after = await state_of(page);
  check(after.cursor !== undefined && after.cursor !== before.cursor, `${name}: the keys do not move the cursor: ${before.cursor}, ${after.cursor}`);
  await press(page, "+", "+", "Enter");
  await page.waitForTimeout(700);
  const zoomed = await state_of(page);
  const n_events = await page.evaluate(() => fetch("files").then(answer => answer.json()).then(({files}) => files[0].devices[0].n_events));
  // A history of a few events is shown whole.
  check(zoomed.range !== undefined || n_events < 50, `${name}: + does not zoom`);
  check(zoomed.life !== undefined, `${name}: Enter pins no block`);
  await shot("pinned");
  await press(page, "Escape", "Escape", "Escape", "c", "t");
  await shot("dark");
  await press(page, "t", "x");
  await shot("time");
  await press(page, "x", "?");
  check(await page.isVisible("#keys-dialog"), `${name}: ? shows no keys`);
  await shot("keys");
  await press(page, "Escape", "/");
  await page.keyboard.type("0x");
  await quiet(page);
  check((await page.evaluate(() => document.activeElement?.type)) === "search", `${name}: / does not go to the search`);
  await shot("search");
  await press(page, "Escape", "Escape", "g");
  await page.keyboard.type("1");
  await press(page, "Enter");
  await page.waitForTimeout(700);
  check((await state_of(page)).cursor === "2", `${name}: g 1 Enter does not go to event 1`);
  await walk(page, name);
}

// Tab reaches every control, and never stays in one.
async function walk(page, name) {
  const seen = new Set();
  await page.evaluate(() => document.activeElement?.blur());
  for (let step = 0; step < 150; step += 1) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => {
      const of = document.activeElement;
      const box = of.getBoundingClientRect();
      window.order ??= new Map();
      if (!window.order.has(of)) window.order.set(of, window.order.size);
      return {key: window.order.get(of), tag: of.tagName, has_box: box.width > 0 && box.height > 0, text: of.id || of.className || of.textContent.slice(0, 20)};
    });
    if (at.tag === "BODY" || seen.has(at.key)) break;
    seen.add(at.key);
    check(at.has_box, `${name}: Tab reaches ${at.tag} ${at.text}, which cannot be seen`);
  }
  check(seen.size >= 10, `${name}: Tab reaches only ${seen.size} controls`);
}

const chromium = await browser();
for (const scene of scenes) {
  const [name, list] = scene.split("=");
  const server = await serve(list.split(","));
  const context = await chromium.newContext({viewport: {width: 1200, height: 750}, colorScheme: "light"});
  const page = await open(context, server.address);
  await quiet(page);
  await tour(page, name);
  const faults = await faults_of(page);
  check(!faults.length, `${name}: ${faults.slice(0, 5).join("; ")}`);
  console.log(`${name}: every view, by keyboard`);
  await context.close();
  server.end();
}
await chromium.close();
finish("tour");
