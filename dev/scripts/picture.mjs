// node dev/scripts/picture.mjs [NAME…]: takes the pictures of the documentation again, memreel's own page with files of this
// repository, and with a heap that it records: that of memreel itself, which has symbols.
//
//   cargo build -p memreel-cli -p memreel-heap -p memreel-preload
//   cargo build --example train
//   MEMREEL_BROWSER=CACHE node dev/scripts/picture.mjs        # CACHE has node_modules/playwright-core, as for crates/cli/tests/browser/run
//
// MEMREEL_RECORDED is the snapshot of a training on a GPU, for the pictures `recorded-…`, which are left out without it:
// LLAMA_STEPS=5 memreel record -o llama.pickle -- python3 crates/hooks/cuda/tests/gpu/programs.py llama counts.json, after a call of
// torch.cuda.memory._record_memory_history().
import {spawnSync} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {PROGRAM, browser, open, serve} from "../../crates/cli/tests/browser/page.mjs";

const FILES = "fixtures/torch-2.11";
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "memreel-pictures-"));

/** Records the heap of memreel while it writes a report. */
function recorded() {
  const file = path.join(folder, "memreel.pickle");
  spawnSync(PROGRAM, ["record", "--heap", "-o", file, "--", PROGRAM, "report", `${FILES}/ranks/rank1.pickle`, "-o", path.join(folder, "report.html")], {stdio: "ignore"});
  return [file];
}

/** Records five steps of the training example, with and without checkpoints. */
function trained(...kinds) {
  return kinds.map(kind => {
    const file = path.join(folder, `${kind || "plain"}.pickle`);
    spawnSync("target/debug/examples/train", ["--steps", "5", "--output", file, ...(kind ? [`--${kind}`] : [])], {stdio: "ignore"});
    return file;
  });
}

const gpu = process.env.MEMREEL_RECORDED;

// The files, the address, the keys, and what differs from a window of 1200 by 720 in light colours. End is the last event, a failed
// request; Enter pins the block under it.
const SCENES = {
  "readme": {files: [`${FILES}/ranks/rank1.pickle`], hash: "#device=1&range=6900,7740&cursor=7690", keys: ["Enter"], width: 1560, height: 780},
  "oom-timeline": {files: [`${FILES}/snapshots/oom_fragment.pickle`], keys: ["End", "Enter"]},
  "oom-state": {files: [`${FILES}/snapshots/oom_fragment.pickle`], keys: ["End", "2"]},
  "fsdp-timeline": {files: [`${FILES}/ranks/rank1.pickle`], keys: []},
  "fsdp-ranks": {files: [`${FILES}/ranks/rank0.pickle`, `${FILES}/ranks/rank1.pickle`], hash: "#view=ranks", keys: [], height: 420},
  "training-timeline": {files: () => trained(""), keys: []},
  "training-checkpoint-timeline": {files: () => trained("checkpoint"), keys: []},
  "training-compare": {files: () => trained("", "checkpoint"), hash: "#view=compare", keys: []},
  ...(gpu && {
    "recorded-timeline": {files: [gpu], hash: "#device=0&colour=owner", keys: []},
    "recorded-blocks": {files: [gpu], hash: "#device=0&view=list", keys: []},
  }),
  "heap-stacks": {files: recorded, hash: "#view=stacks", keys: [], scheme: "dark"},
};

/** Takes a picture. */
async function take(chromium, name, {files, hash = "", keys, width = 1200, height = 720, scheme = "light"}) {
  const server = await serve(typeof files === "function" ? files() : files);
  try {
    const context = await chromium.newContext({viewport: {width, height}, colorScheme: scheme});
    const page = await open(context, server.address, {hash});
    await page.waitForSelector('.verdict[data-state="ready"]');
    for (const key of keys) {
      await page.waitForLoadState("networkidle");
      await page.waitForTimeout(700);
      await page.keyboard.press(key);
    }
    await page.waitForLoadState("networkidle");
    await page.waitForTimeout(1000);
    await page.screenshot({path: `docs/view/${name}.png`});
    if (page.faults.length) { console.error(`${name}: ${page.faults.join("\n")}`); process.exitCode = 1; }
    await context.close();
  } finally {
    server.end();
  }
}

const chromium = await browser();
const names = process.argv.slice(2);
try {
  for (const [name, scene] of Object.entries(SCENES)) if (!names.length || names.includes(name)) await take(chromium, name, scene);
} finally {
  await chromium.close();
  fs.rmSync(folder, {recursive: true, force: true});
}
