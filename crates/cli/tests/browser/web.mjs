// The page that has memreel in it, in Chromium and in Firefox: what it answers is what the program answers, byte for byte.
// node web.mjs PAGE FILE…; MEMREEL_WEB_BROWSERS=chrome,firefox names the browsers. It prints what differs, and a line a browser.
import {execFile} from "node:child_process";
import {createHash} from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {promisify} from "node:util";
import {PROGRAM, check, finish, serve} from "./page.mjs";
import {close, drop, launch, open, ready} from "./web_page.mjs";

const QUESTIONS = [
  "summary --json", "summary", "oom --json", "oom", "leaks --json", "top --json", "top --tree", "churn --json", "fragmentation --json", "owners --json",
  "timeline --json", "timeline --csv", "at 5 --json", "replay --json", "replay --sweep --json", "validate --json", "gate --json --max-peak 1GiB", "flamegraph",
  "report", "report -o out.html", "report --anonymise", "convert --to csv -o out.csv", "convert --to json", "convert --to perfetto -o out.json", "convert --to pprof -o out.pb",
  "slim --anonymise -o out.pickle", "slim --min-size 1MiB --depth 20 -o out.pickle", "fix -o out.pickle", "torch memory",
];
const MOST_BYTES = 64 << 20;

const hash = bytes => createHash("sha256").update(bytes).digest("hex");

/** Runs the program in a folder of the files. */
async function native(words, folder) {
  const own = fs.mkdtempSync(path.join(os.tmpdir(), "memreel-web-own-"));
  for (const name of fs.readdirSync(folder)) fs.symlinkSync(path.join(folder, name), path.join(own, name));
  const {stdout, stderr, code = 0} = await promisify(execFile)(PROGRAM, words, {cwd: own, encoding: "buffer", maxBuffer: 2 ** 31}).catch(error => error);
  const written = fs.readdirSync(own).filter(name => !fs.lstatSync(path.join(own, name)).isSymbolicLink());
  const files = written.map(name => [name, hash(fs.readFileSync(path.join(own, name)))]);
  fs.rmSync(own, {recursive: true});
  return {status: code, stdout: hash(stdout), stderr: hash(stderr), files, text: [stdout, stderr].map(text => text.toString().slice(0, 2000))};
}

/** Runs a command in the page. */
const in_page = (page, words) => page.evaluate(async words => {
  const hash = async bytes => [...new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))].map(of => of.toString(16).padStart(2, "0")).join("");
  try {
    const {status, stdout, stderr, written} = await window.memreel.source.command(words);
    const files = await Promise.all(written.map(async of => [of.name, await hash(of.bytes)]));
    const [out, error] = await Promise.all([stdout, stderr].map(text => hash(new TextEncoder().encode(text))));
    return {status, stdout: out, stderr: error, files, text: [stdout.slice(0, 2000), stderr.slice(0, 2000)]};
  } catch (error) {
    return {status: String(error.message ?? error)};
  }
}, words);

/** Compares a command; returns whether both are equal. */
async function compare(page, words, folder) {
  const [ours, theirs] = await Promise.all([in_page(page, words), native(words, folder)]);
  const key = ({status, stdout, stderr, files}) => JSON.stringify([status, stdout, stderr, files]);
  const is_equal = key(ours) === key(theirs);
  if (!is_equal) console.log(`DIFFERS: ${words.join(" ")}\n  page    ${JSON.stringify(ours)}\n  program ${JSON.stringify(theirs)}`);
  return is_equal;
}

/** Returns requests of the views about a file. */
function requests(file, of) {
  const {device, peak, n_events, n_lives} = of;
  const all = {file, device};
  const picture = {...all, axis: "events", colour: "stack", level: 0, index: 0, rise: 0, shelf: 0};
  return [
    ["totals", {...all, moment: peak.moment}], ["totals", {...all, moment: n_events}], ["state", {...all, moment: peak.moment}], ["state", {...all, moment: n_events}],
    ["list", {...all, offset: 0, count: 200}], ["groups", {...all, colour: "stack"}], ["groups", {...all, colour: "pool"}], ["icicle", {...all, what: "live", moment: peak.moment}],
    ["picture", picture], ["picture", {...picture, axis: "time", colour: "function"}], ["picture", {...picture, level: 2, index: 1}], ["curve", {...all, points: 500}],
    ["next", {...all, moment: 0, kind: "oom", direction: 1}], ["whatif", {...all, conf: "expandable_segments:True"}], ["diff", {...all, other: 0}],
    ...(n_lives ? [["block", {...all, life: 0}]] : []),
  ];
}

/** Compares the answers to the views' requests; returns how many there were, and how many differ. */
async function compare_views(page, address, file, devices) {
  let [n, n_different] = [0, 0];
  for (const of of devices) {
    for (const [name, params] of requests(file, of)) {
      const answer = await fetch(`${address}${name}?${new URLSearchParams(params)}`);
      const bytes = Buffer.from(await answer.arrayBuffer());
      const theirs = !answer.ok ? JSON.parse(bytes).error : name === "picture" ? hash(bytes) : JSON.stringify(JSON.parse(bytes));
      const ours = await page.evaluate(async ([name, params]) => {
        try {
          const answer = await window.memreel.source[name](params);
          if (name !== "picture") return JSON.stringify(answer);
          return [...new Uint8Array(await crypto.subtle.digest("SHA-256", answer))].map(of => of.toString(16).padStart(2, "0")).join("");
        } catch (error) {
          return error.message;
        }
      }, [name, params]);
      n += 1;
      if (ours === theirs) continue;
      n_different += 1;
      const at = [...ours].findIndex((letter, index) => letter !== theirs[index]);
      console.log(`DIFFERS: ${name} ${JSON.stringify(params)} at ${at}: page ${ours.slice(Math.max(at - 60, 0), at + 100)} server ${theirs.slice(Math.max(at - 60, 0), at + 100)}`);
    }
  }
  return [n, n_different];
}

const [own_page, ...given] = process.argv.slice(2);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "memreel-web-"));
const names = [];
for (const file of given) {
  const name = names.includes(path.basename(file)) ? `${path.basename(path.dirname(file))}-${path.basename(file)}` : path.basename(file);
  names.push(name);
  fs.copyFileSync(file, path.join(folder, name));
}
const paths = names.map(name => path.join(folder, name));
const server = await serve(paths);
const described = () => fetch(`${server.address}files`).then(answer => answer.json());
let {files: theirs} = await described();
while (theirs.some(of => of.state === "reading")) {
  await new Promise(done => setTimeout(done, 100));
  ({files: theirs} = await described());
}
const questions = process.env.MEMREEL_WEB_QUESTIONS?.split(",") ?? QUESTIONS;

for (const kind of (process.env.MEMREEL_WEB_BROWSERS ?? "chrome,firefox").split(",")) {
  const browser = await launch(kind);
  const page = await open(browser, own_page);
  check(/Drop snapshots here/.test(await page.$eval("#view", view => view.textContent)), `${kind}: the first screen is missing`);
  const begin = performance.now();
  await drop(page, paths);
  await ready(page);
  const read_ms = Math.round(performance.now() - begin);
  const {files} = await page.evaluate(() => window.memreel.source.files());
  let [n_views, n_commands] = [0, 0];
  for (const [index, name] of names.entries()) {
    const [mine, its] = [files[index], theirs[index]];
    const without_folder = JSON.stringify({...its, name});
    const is_same = JSON.stringify(mine) === without_folder;
    if (!is_same) console.log(`DIFFERS: files: ${JSON.stringify(mine).slice(0, 400)} / ${without_folder.slice(0, 400)}`);
    check(is_same, `${kind}: ${name}: the page describes the file in another way`);
    const [n_asked, n_other] = mine.state === "ready" && fs.statSync(paths[index]).size < MOST_BYTES ? await compare_views(page, server.address, index, mine.devices) : [0, 0];
    check(!n_other, `${kind}: ${name}: ${n_other} of ${n_asked} answers to the views differ`);
    let n = 0;
    for (const question of questions) n += await compare(page, [...question.split(" "), name], folder) ? 0 : 1;
    check(!n, `${kind}: ${name}: ${n} of ${questions.length} commands differ`);
    n_views += n_asked - n_other;
    n_commands += questions.length - n;
  }
  const readable = names.filter((_, index) => files[index].state === "ready");
  const together = [
    ["ranks", "--json", ...readable], ["merge", "-o", "out.pickle", ...readable.slice(0, 2)], ["diff", "--json", ...readable.slice(0, 2)], ["oom", "--json", ...names], ["nonsense"], ["ranks", "--html", "out.html", ...readable.slice(0, 2)],
  ];
  for (const words of together) check(await compare(page, words, folder), `${kind}: ${words.slice(0, 3).join(" ")} differs`);
  console.log(`${kind}: ${names.length} files read in ${read_ms} ms; ${n_views} answers to the views and ${n_commands} commands are equal (${Math.round(performance.now() - begin)} ms)`);
  check(!page.requests.length, `${kind}: the page asked the network for ${page.requests.slice(0, 3)}`);
  check(!page.faults.length, `${kind}: ${page.faults.slice(0, 5).join("; ")}`);
  await close(browser);
}
server.end();
fs.rmSync(folder, {recursive: true});
finish("web");
