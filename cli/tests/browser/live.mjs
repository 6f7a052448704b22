// The page that follows a program: the curve grows, a look opens all views, Follow leads back, and the end is said.
// node live.mjs RUN PID: the folder of a run of one process, which the script kills at the end.
import {browser, check, faults_of, finish, open, serve} from "./page.mjs";

const [run, process_id] = process.argv.slice(2);
const server = await serve(["--live", run]);
const chromium = await browser();
const live = await open(await chromium.newContext(), server.address, {wait: false});
const ready = () => live.waitForFunction(() => document.documentElement.dataset.state === "ready", null, {timeout: 60000});
await ready();

// How often the page draws a new look, and how late a look is drawn.
const drawn = await live.evaluate(async () => {
  const all = [];
  let before = document.documentElement.dataset.nowUs;
  const until = performance.now() + 10000;
  while (performance.now() < until) {
    await new Promise(requestAnimationFrame);
    const now = document.documentElement.dataset.nowUs;
    if (now !== before) all.push(Date.now() - Number(now) / 1000);
    before = now;
  }
  return all;
});
drawn.sort((one, other) => one - other);
console.log(`${drawn.length} looks were drawn in 10 s; from the look to its picture: p50 ${Math.round(drawn[drawn.length >> 1])} ms, p95 ${Math.round(drawn[Math.floor(drawn.length * 0.95)])} ms`);
check(drawn.length > 1, "the page draws no new looks");
check(await live.$$eval(".live-tile", tiles => tiles.length) >= 1, "there is no chart");
check(await live.$eval(".live-details", of => of.textContent.includes("Owners")), "the owners are not shown");

await live.click("#pause");
await live.waitForURL(/look\/1\/$/);
await live.waitForFunction(() => document.documentElement.dataset.state === "ready" && window.memreel, null, {timeout: 60000});
check(await live.isVisible("#follow"), "a look has no way back");
check(await live.isHidden("#end"), "a look ends the server");
await live.click("#follow");
await live.waitForURL(server.address);
await ready();

process.kill(Number(process_id), "SIGKILL");
await live.waitForFunction(() => document.getElementById("state").textContent === "All recordings have ended.", null, {timeout: 30000});
check(await live.$eval(".live-details", of => of.textContent.includes("The recording has ended")), "the end is not said");
for (const fault of await faults_of(live)) check(false, fault);
await chromium.close();
server.end();
finish("live");
