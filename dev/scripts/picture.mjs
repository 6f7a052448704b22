// node dev/scripts/picture.mjs: takes the README's picture, memreel's own page with the rank that ran out of memory.
//
//   cargo build -p memreel-cli
//   MEMREEL_BROWSER=CACHE node dev/scripts/picture.mjs        # CACHE has node_modules/playwright-core, as for crates/cli/tests/browser/run
import {browser, open, serve} from "../../crates/cli/tests/browser/page.mjs";

const [file = "fixtures/torch-2.11/ranks/rank1.pickle", picture = "docs/view/readme.png"] = process.argv.slice(2);
const server = await serve([file]);
const chromium = await browser();
try {
  const context = await chromium.newContext({viewport: {width: 1560, height: 700}, colorScheme: "light"});
  const page = await open(context, server.address);
  await page.waitForLoadState("networkidle");
  // The cursor is on the last event, the failed request; Enter pins the block under it.
  await page.keyboard.press("End");
  await page.waitForTimeout(500);
  await page.keyboard.press("Enter");
  await page.waitForLoadState("networkidle");
  await page.waitForTimeout(1000);
  await page.screenshot({path: picture});
  if (page.faults.length) { console.error(page.faults.join("\n")); process.exitCode = 1; }
} finally {
  await chromium.close();
  server.end();
}
