// node .ci/picture.mjs CACHE SNAPSHOT.pickle PICTURE.png: takes the README's picture. PyTorch's viewer, in the folder
// CACHE, opens the snapshot in headless Chromium; a few training steps are selected in the strip below, and one block.
//
//   cargo run --release --example train -- --output /tmp/train.pickle
//   memreel slim --strip-prefix "$PWD/" /tmp/train.pickle -o /tmp/snapshot.pickle
//   node .ci/picture.mjs target/viewer /tmp/snapshot.pickle examples/train.png
import {createRequire} from 'module'; import fs from 'fs'; import http from 'http'; import path from 'path';
const [cache, file, picture] = process.argv.slice(2);
const {chromium} = createRequire(path.resolve(cache) + '/')('playwright-core');
const server = http.createServer((query, reply) => {
  const found = query.url === '/snapshot' ? file : path.join(cache, query.url.slice(1));
  if (!fs.existsSync(found)) return reply.writeHead(404).end();
  reply.writeHead(200, {'content-type': {'.js': 'text/javascript', '.html': 'text/html'}[path.extname(found)] ?? 'application/octet-stream'});
  reply.end(fs.readFileSync(found));
}).listen(0, '127.0.0.1');
await new Promise(listens => server.on('listening', listens));
const base = `http://127.0.0.1:${server.address().port}`;
const browser = await chromium.launch({executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu', '--no-first-run']});
const page = await browser.newPage({viewport: {width: 1400, height: 680}});
page.on('pageerror', error => { console.error(String(error)); process.exitCode = 1; });
await page.goto(`${base}/page.html`);
await page.evaluate(async url => {
  const bytes = await (await fetch(url)).arrayBuffer();
  const files = new DataTransfer(); files.items.add(new File([bytes], 'snapshot.pickle'));
  document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: files, bubbles: true, cancelable: true}));
}, `${base}/snapshot`);
await page.waitForFunction(() => document.querySelectorAll('svg').length > 1);
await page.waitForTimeout(2000);
// The strip with all steps is the last drawing; its first pixels are the first steps.
const strip = await page.evaluate(() => [...document.querySelectorAll('svg')].pop().getBoundingClientRect().toJSON());
const [left, middle] = [strip.x + 96, strip.y + strip.height / 2];
await page.mouse.move(left + 14, middle); await page.mouse.down(); await page.mouse.move(left - 20, middle, {steps: 9}); await page.mouse.up();
await page.waitForTimeout(1000);
await page.mouse.move(290, 320); await page.mouse.move(300, 320); await page.mouse.down(); await page.mouse.up();
await page.waitForTimeout(500);
await page.screenshot({path: picture});
await browser.close(); server.close();
