// The page that follows programs: a small chart for each device of each process, and what the selected one holds.
// The server keeps a bounded curve, so neither it nor the page grows with the length of the run.

import {create as create_chart} from "./chart.js";
import {bytes, counted, device_name, element, number, plain, reason_of} from "./text.js";

// Between two pictures, at least, and between two questions to a server that does not answer.
const BETWEEN_MS = 100;
const AGAIN_MS = 1000;

/** @param {string} id */
const at = id => /** @type {HTMLElement} */ (document.getElementById(id));

/** @type {Map<string, ReturnType<typeof create_tile>>} */
const tiles = new Map();
/** @type {string | null} */
let selected = null;
/** @type {LiveAnswer | null} */
let last = null;

/** @param {string} path @param {RequestInit} [options] @returns {Promise<any>} */
async function ask(path, options = {}) {
  const answer = await fetch(path, {...options, cache: "no-store"});
  const text = await answer.text();
  if (answer.ok) return text.startsWith("{") ? JSON.parse(text) : text;
  let reason = text;
  try { reason = JSON.parse(text).error ?? text; } catch { /* it is a text */ }
  throw new Error(reason || `${path}: the server answered ${answer.status}`);
}

/** @param {LiveDevice} device */
const key_of = device => `${device.file} ${device.device}`;

/** @param {LiveDevice} device */
const shown_bytes = device => device.used_bytes ?? device.live_bytes;

/** @param {LiveDevice} device */
function title_of(device) {
  const rank = device.rank === null ? "" : `rank ${plain(device.rank, 40)}, `;
  const name = device.name ? ` (${plain(device.name, 80)})` : "";
  return `${rank}process ${device.process}, device ${device_name(device.device)}${name}`;
}

/** @param {string} key */
function create_tile(key) {
  const chart = create_chart("live", "Memory over time");
  const head = element("span", "live-title");
  const figures = element("span", "number");
  const tile = element("button", "live-tile panel", null, [element("span", "live-head", null, [head, figures]), chart.surface.element]);
  tile.type = "button";
  tile.addEventListener("click", () => { selected = key; draw(); });
  return {
    tile,
    /** @param {LiveDevice} device @param {number} most */
    draw(device, most) {
      const begin_us = device.curve[0]?.[0] ?? 0;
      /** @type {Point[]} */
      const points = device.curve.map(([us, count]) => [(us - begin_us) / 1e6, count]);
      const until = Math.max(1, points.at(-1)?.[0] ?? 1);
      head.textContent = title_of(device);
      figures.textContent = `${bytes(shown_bytes(device))}${device.is_running ? "" : ", ended"}`;
      tile.setAttribute("aria-pressed", String(key === selected));
      tile.classList.toggle("live-ended", !device.is_running);
      chart.draw({curves: [{name: "bytes", ink: "--active", fill: "--rest", points}], most, until, unit: "s"}, `${title_of(device)}: ${figures.textContent}`);
    },
  };
}

/** @param {string} heading @param {[bytes: number, name: string][]} rows */
function table(heading, rows) {
  if (!rows.length) return [];
  const lines = rows.map(([count, name]) => element("tr", "", null, [element("td", "number", bytes(count)), element("td", "code", null, [element("bdi", "", plain(name, 400))])]));
  return [element("section", "live-list", null, [element("h3", "", heading), element("table", "", null, [element("tbody", "", null, lines)])])];
}

/** @param {LiveSite[]} sites @returns {[bytes: number, name: string][]} */
const rows_of = sites => sites.map(({bytes: count, text}) => [count, text]);

/** @param {LiveDevice} device */
function details(device) {
  const limit = device.limit_bytes === null ? "" : ` of ${bytes(device.limit_bytes)}`;
  const used = device.used_bytes === null ? "" : `used ${bytes(device.used_bytes)}${limit}, `;
  const text = `${used}live ${bytes(device.live_bytes)} in ${counted(device.n_live, "block")}, at most ${bytes(device.live_peak_bytes)}, reserved ${bytes(device.reserved_bytes)}; ${number(device.allocations_per_s)} allocations per second`;
  /** @type {HTMLElement[]} */
  const lines = [element("h2", "", title_of(device)), element("p", "", text)];
  if (!device.is_running) lines.push(element("p", "warning", "The recording has ended because the process exited, was killed or called exec. These are the last figures."));
  if (device.oom) lines.push(element("p", "error", plain(`${counted(device.oom.n_ooms, "failed request")}${device.oom.why ? `: ${device.oom.why}` : ""}`, 1000)));
  lines.push(...device.problems.map(problem => element("p", "warning", plain(problem, 1000))));
  lines.push(
    ...table("Owners", device.owners.map(of => [of.bytes, of.owner])), ...table("Largest holders", rows_of(device.holders)),
    ...table("Grew most in the last minute", rows_of(device.grown_in_a_minute)), ...table("Grew most since the page was opened", rows_of(device.grown_since_begin)),
  );
  return lines;
}

function draw() {
  if (!last) return;
  const {devices} = last;
  if (!devices.some(device => key_of(device) === selected)) selected = devices[0] ? key_of(devices[0]) : null;
  const most = Math.max(1, ...devices.flatMap(device => device.curve.map(point => point[1])));
  const keys = new Set(devices.map(key_of));
  for (const [key, {tile}] of tiles) if (!keys.has(key)) { tile.remove(); tiles.delete(key); }
  for (const device of devices) {
    const key = key_of(device);
    let tile = tiles.get(key);
    if (!tile) {
      tile = create_tile(key);
      tiles.set(key, tile);
      at("devices").append(tile.tile);
    }
    tile.draw(device, most);
  }
  const device = devices.find(of => key_of(of) === selected);
  at("details").replaceChildren(...(device ? details(device) : []));
  const n_running = new Set(devices.filter(of => of.is_running).map(of => of.file)).size;
  const none = devices.length ? "All recordings have ended." : "No recording has started yet.";
  at("state").textContent = n_running ? `Following ${counted(n_running, "recording")}.` : none;
  document.documentElement.dataset.nowUs = String(last.now_us);
  document.documentElement.dataset.state = "ready";
}

async function poll() {
  let wait_ms = BETWEEN_MS;
  try {
    // The answer comes with the next look.
    last = await ask(last ? `live?after=${last.now_us ?? 0}` : "live");
    draw();
  } catch (error) {
    at("state").textContent = `The server has stopped or is not responding (${reason_of(error)}); these are the last figures.`;
    wait_ms = AGAIN_MS;
  }
  setTimeout(poll, wait_ms);
}

/** @param {string} id @param {() => Promise<string>} act */
function connect(id, act) {
  at(id).addEventListener("click", async () => {
    try {
      at("message").textContent = await act();
    } catch (error) {
      at("message").textContent = reason_of(error);
    }
  });
}

connect("pause", async () => {
  const {look} = await ask("pause", {method: "POST"});
  location.assign(`look/${look}/`);
  return "";
});
connect("snapshot", async () => `Wrote ${(await ask("snapshot", {method: "POST"})).files.join(", ")}`);
connect("end", async () => (confirm("Quit memreel view? The programs keep running.") ? ask("end", {method: "POST"}) : ""));
poll();
