// What was found is above the picture, in the words of `memreel FILE`, and each sentence leads to its place; on a phone the picture
// still has half of the screen. The view of answers has what the commands print. node verdict.mjs FILE...
import {folded} from "../../viewer/branches.js";
import {tick_bytes} from "../../viewer/text.js";
import {browser, check, faults_of, finish, open, program, serve} from "./page.mjs";

// Long chains of calls are folded, and what is below them moves up; a chain that was opened stays whole.
const frame = (depth, bytes) => ({name: `f${depth}`, filename: "a.py", line: 1, depth, bytes, n_blocks: 1});
const chain = n => ({bytes: 8, n_blocks: 1, n_left_out: 0, branches: [...Array(n).keys()].map(depth => frame(depth, 8)).concat([frame(n, 5), frame(n, 3)])});
const shape = of => of.branches.map(({name, depth}) => `${depth} ${name}`).join(", ");
check(shape(folded(chain(9), new Set())) === "0 f0, 1 7 more calls, 2 f8, 3 f9, 3 f9", shape(folded(chain(9), new Set())));
for (const [n, open_ones] of [[4, []], [9, [0]]]) check(shape(folded(chain(n), new Set(open_ones))) === shape(chain(n)), `a chain of ${n} is folded`);
for (const [count, text] of [[0, "0 B"], [100, "100 B"], [2 ** 31, "2 GiB"], [1.5 * 2 ** 30, "1.5 GiB"], [1.75 * 2 ** 30, "1.75 GiB"], [10 * 2 ** 20, "10 MiB"], [2.05 * 2 ** 30, "2.05 GiB"]]) {
  check(tick_bytes(count) === text, `a tick is "${tick_bytes(count)}", not "${text}"`);
}

const PHONE = {width: 390, height: 844};
/** What a text says, without the width of its lines. */
const words = text => text.replace(/\s+/g, " ").trim();
/** Returns the lines that a command prints, without blanks at their ends. */
const printed = (...command) => program(...command).split("\n").map(words).filter(Boolean);

const context = await (await browser()).newContext({viewport: {width: 1440, height: 900}});
const ready = page => page.waitForSelector('.verdict[data-state="ready"]', {timeout: 60000});
const visible = (page, selector) => page.$$eval(selector, all => all.filter(of => of.checkVisibility()).map(of => of.id || of.textContent));

/** The sentences are lines of the summary, the failure first, and lead to their places. */
async function sentences(page, file) {
  await ready(page);
  const shown = (await page.$$eval(".verdict-line", all => all.map(of => of.textContent))).map(words);
  const lines = printed(file);
  check(shown.length > 0, `${file}: nothing was found`);
  for (const line of shown) check(lines.includes(line), `${file}: "${line}" is not a line of the summary`);
  const failure = lines.find(line => line.startsWith("out of memory"));
  if (failure) check(shown[0] === failure, `${file}: the page begins with "${shown[0]}", not with "${failure}"`);
  check(!failure || shown.length > 1, `${file}: no cause is shown`);
  const first = await page.$(".verdict-line .place");
  if (!first) return;
  await first.click();
  await page.waitForFunction(() => location.hash.includes("cursor="), null, {timeout: 5000});
  const event = /\(event (\d+)\)|after event (\d+)/.exec(shown[0]);
  const cursor = Number(/cursor=(\d+)/.exec(await page.evaluate(() => location.hash))?.[1]);
  if (event && failure) check(Math.abs(cursor - Number(event[1] ?? event[2])) <= 1, `${file}: "${shown[0]}" leads to the moment ${cursor}`);
}

/** Each answer is what its command prints. */
async function answers(page, file, device) {
  for (const [question, ...command] of [["oom", "oom"], ["leaks", "leaks"]]) {
    await page.evaluate(of => { location.hash = `#view=answer&question=${of[0]}&device=${of[1]}`; }, [question, device]);
    await page.waitForSelector(`.answer-text[data-question="${question}"]`, {timeout: 60000});
    const shown = (await page.$$eval(".answer-line", all => all.map(of => of.textContent))).map(words).filter(Boolean);
    let lines;
    try {
      lines = printed(...command, `--device=${device}`, file);
    } catch (error) {
      // A failed request is status 1.
      lines = String(error.stdout).split("\n").map(words).filter(Boolean);
    }
    check(JSON.stringify(shown) === JSON.stringify(lines), `${file}: ${question} shows ${JSON.stringify(shown.slice(0, 3))}, not ${JSON.stringify(lines.slice(0, 3))}`);
  }
}

/** The event that allocated a block has one number: in the list, in its details, and after a jump to it, below the picture and in the steps. */
async function one_number(page, file) {
  await page.click('#tabs [data-view="list"]');
  const row = await page.waitForSelector(".grid-rows .grid-row[data-life]");
  const from = await row.$eval(".grid-cell:nth-child(6)", of => of.textContent);
  await row.click();
  await page.waitForSelector(".details dl");
  const facts = await page.$eval(".details dl", of => of.textContent);
  if (from === "before") return;
  check(facts.includes(`Allocatedevent ${from}`), `${file}: the row says ${from}, the details ${facts}`);
  await page.click('.details button:text-is("Go to its allocation")');
  await page.click('#tabs [data-view="state"]');
  await page.waitForFunction(event => document.getElementById("totals").textContent.startsWith(`After event ${event} of`), from, {timeout: 10000}).catch(() => {});
  const below = await page.textContent("#totals");
  check(below.startsWith(`After event ${from} of`) && await page.inputValue(".steps-field") === from, `${file}: the row says ${from}, the line ${below}, the steps ${await page.inputValue(".steps-field")}`);
}

/** What does nothing in a view is not there. */
async function controls(page) {
  for (const [view, hidden] of [["timeline", []], ["state", ["axis"]], ["compare", ["colour", "axis", "search"]], ["ranks", ["colour", "axis", "search"]], ["answer", ["colour", "axis", "search"]]]) {
    await page.click(`#tabs [data-view="${view}"]`);
    const there = await visible(page, "#colour, #axis, #search");
    for (const id of ["colour", "axis"]) check(there.includes(id) !== hidden.includes(id), `${view}: ${id} is ${hidden.includes(id) ? "" : "not "}there`);
    check(!hidden.includes("search") || !there.includes("search"), `${view}: the filters are there`);
  }
}

for (const file of process.argv.slice(2)) {
  const server = await serve([file]);
  const page = await open(context, server.address);
  const device = Number(await page.inputValue("#device"));
  await sentences(page, file);
  await answers(page, file, device);
  await one_number(page, file);
  await controls(page);
  const faults = await faults_of(page);
  check(!faults.length, `${file}: ${faults.join("; ")}`);
  await page.close();
  const phone = await open(context, server.address);
  await phone.setViewportSize(PHONE);
  await ready(phone);
  const [height, n_lines, n_expected, across] = await phone.evaluate(() => [document.querySelector(".timeline .plot").clientHeight, [...document.querySelectorAll(".verdict-line")].filter(of => of.checkVisibility()).length, document.querySelectorAll(".verdict-line:first-child, .failure + .cause").length, document.documentElement.scrollWidth]);
  check(height >= PHONE.height / 2, `${file}: on a phone the picture has ${height} of ${PHONE.height} pixels`);
  check(n_lines === n_expected && across <= PHONE.width, `${file}: on a phone ${n_lines} sentences are shown, ${across} pixels wide`);
  await phone.click(".verdict-more");
  check((await visible(phone, ".verdict-line")).length >= 1, `${file}: More shows nothing`);
  await phone.click("#more");
  check((await visible(phone, "#search, #colour, #help")).length === 3, `${file}: the other controls are not shown`);
  await phone.close();
  server.end();
}
await context.browser().close();
finish("verdict");
