// axe-core finds no serious fault in any view. node axe.mjs FILE…; MEMREEL_AXE names axe.min.js.
import fs from "node:fs";
import path from "node:path";
import {browser, check, finish, open, serve, settled} from "./page.mjs";

const AXE = process.env.MEMREEL_AXE;
if (!AXE || !fs.existsSync(AXE)) {
  console.log("skipped: no axe-core (MEMREEL_AXE names no file axe.min.js)");
  process.exit(0);
}
const SOURCE = fs.readFileSync(AXE, "utf8");
const VIEWS = ["timeline", "state", "stacks", "list", "compare", "ranks", "answer"];

/** Notes the serious and critical faults of what is shown; returns how many others there are. */
async function audit(page, name) {
  await page.waitForLoadState("networkidle");
  await page.waitForTimeout(200);
  const faults = await page.evaluate(async source => {
    if (!window.axe) (0, eval)(source);
    const {violations} = await window.axe.run(document);
    return violations.map(({id, impact, nodes}) => ({id, impact, where: nodes.slice(0, 3).map(node => `${node.target} ${node.any?.[0]?.message ?? node.failureSummary}`)}));
  }, SOURCE);
  for (const {id, impact, where} of faults) {
    check(!["serious", "critical"].includes(impact), `${name}: ${impact}: ${id}: ${where.join(" | ")}`.slice(0, 600));
    if (!["serious", "critical"].includes(impact)) console.log(`  ${name}: ${impact}: ${id}`);
  }
}

const chromium = await browser();
const server = await serve(process.argv.slice(2));
for (const colorScheme of ["light", "dark"]) {
  // The policy of the page forbids the script of axe as well.
  const context = await chromium.newContext({viewport: {width: 1200, height: 750}, colorScheme, bypassCSP: true});
  const page = await open(context, server.address);
  for (const [index, view] of VIEWS.entries()) {
    await page.keyboard.press(String(index + 1));
    await settled(page);
    await audit(page, `${view}, ${colorScheme}`);
  }
  await page.keyboard.press("1");
  await page.keyboard.press("k");
  await page.keyboard.press("Enter");
  await audit(page, `pinned block, ${colorScheme}`);
  for (const key of ["?", "g"]) {
    await page.keyboard.press(key);
    await audit(page, `dialog ${key}, ${colorScheme}`);
    await page.keyboard.press("Escape");
  }
  console.log(`${path.basename(process.argv[2])}, ${colorScheme}: every view`);
  await context.close();
}
server.end();
await chromium.close();
finish("axe");
