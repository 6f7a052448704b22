// Starts the page: loads the views, follows the reading of the files, and connects the bar at the top.

import {create as create_app} from "./app.js";
import {create as create_source} from "./source.js";
import {create as create_offline} from "./offline.js";
import {create as create_web} from "./web.js";
import {change_axis} from "./lens.js";
import {current, follow, write} from "./address.js";
import {COLOURINGS, is_dark} from "./colours.js";
import {device_name, element, file_names, plain, reason_of} from "./text.js";
import {open as open_keys} from "./keys.js";
import {create as create_status} from "./status.js";
import {offer} from "./console.js";

const VIEWS = [
  ["timeline", "Timeline", "./timeline.js"], ["state", "State", "./allocator.js"], ["stacks", "Stacks", "./icicle.js"],
  ["list", "Blocks", "./list.js"], ["compare", "Compare", "./compare.js"], ["ranks", "Ranks", "./ranks.js"],
  ["answer", "Answer", "./answer.js"],
];
const PANELS = [
  ["filters", "./filters.js"], ["verdict", "./verdict.js"], ["notice", "./notice.js"], ["details", "./details.js"], ["legend", "./legend.js"], ["whatif", "./whatif.js"], ["copy", "./copy.js"],
];
const POLL_MS = 200;

/** @param {string} id */
/**
 * The elements of index.html that are more than a box.
 * @typedef {object} Places
 * @property {HTMLSelectElement} file
 * @property {HTMLSelectElement} device
 * @property {HTMLSelectElement} colour
 * @property {HTMLSelectElement} axis
 * @property {HTMLButtonElement} end
 */

/** @template {string} Id @param {Id} id */
const at = id => /** @type {Id extends keyof Places ? Places[Id] : HTMLElement} */ (document.getElementById(id));
// A page that is one file has the answers in it, or memreel itself.
const [pack, module, worker] = ["pack", "module", "worker"].map(id => document.getElementById(id)?.textContent ?? "");
const app = create_app(pack ? create_offline(pack) : module ? create_web(module, worker) : create_source());
/** What is shown where files are still to be opened. @type {HTMLElement | undefined} */
let first;
/** @type {Map<string, View>} */
const loaded = new Map();
/** @type {string | null} */
let shown = null;

/** Returns the view that is open. Views may offer text(), canvas() and svg() for copies. */
app.view = () => (shown === null ? null : loaded.get(shown) ?? null);

/** @param {string} title @param {string} text @param {string} next What to do. */
function fail(title, text, next) {
  document.documentElement.dataset.state = "error";
  app.view()?.hide();
  const failure = element("div", "failure", null, [element("h2", "error", title), element("pre", "", text), element("p", "", next)]);
  at("view").replaceChildren(failure);
  failure.setAttribute("role", "alert");
  shown = null;
}

/** What to do about a file that cannot be shown. @param {string} name */
function next_of(name) {
  const others = app.all_files().some(file => file.state === "ready") ? "Select another file in the bar above. " : "";
  return `${others}To open a file that torch.cuda.memory._dump_snapshot or memreel wrote, use memreel view FILE; or write this file again. To see what is wrong with its format: memreel validate ${name}`;
}

/** @param {string} path @param {HTMLElement} [place] @returns {Promise<View>} */
async function load(path, place) {
  try {
    return (await import(path)).create(app);
  } catch (error) {
    console.error(error);
    const text = `${path} could not be started: ${reason_of(error)}`;
    if (place) place.replaceChildren(element("p", "error", text));
    return {element: element("p", "error", text), show() {}, hide() {}, update() {}};
  }
}

// Shows the view of the state, or why there is none. Only the last of several calls has an effect.
let turn = 0;
async function open() {
  const mine = ++turn;
  const file = app.file();
  if (!app.files) return;
  if (first && !app.all_files().length) {
    document.documentElement.dataset.state = "first";
    return at("view").replaceChildren(first);
  }
  if (!file) return fail("There is no such file", `The page's address refers to file ${app.state.file}, counted from 0; the number of open files is ${app.all_files().length}.`, "Select a file in the bar above.");
  if (file.state === "failed") return fail(`${file.name} cannot be shown`, file.error ?? "", next_of(file.name));
  if (file.state === "ready" && !app.device()) return fail(`${file.name} has no device ${device_name(app.state.device)}`, "The snapshot has no entries for this device.", "Select a device in the bar above.");
  document.documentElement.dataset.state = "loading";
  const name = file.state === "reading" ? "timeline" : app.state.view;
  if (!loaded.has(name)) loaded.set(name, await load(VIEWS.find(([of]) => of === name)?.[2] ?? ""));
  const view = loaded.get(name);
  if (mine !== turn || !view) return;
  if (shown !== name) {
    app.view()?.hide();
    at("view").replaceChildren(view.element);
    shown = name;
  }
  await view.show();
  if (mine === turn && file.state === "ready") document.documentElement.dataset.state = "ready";
}

/** @type {View[]} */
const panels = [];
async function open_panels() {
  for (const [id, path] of PANELS) {
    load(path, at(id)).then(panel => {
      at(id).replaceChildren(panel.element);
      panels.push(panel);
      if (app.device()) panel.show();
    });
  }
}

const tabs = () => /** @type {HTMLElement[]} */ ([...at("tabs").children]);

function connect_bar() {
  const is_look = /\/look\/\d+\/$/.test(location.pathname) && !app.source.is_offline;
  at("follow").hidden = !is_look;
  // A look ends with the page that follows.
  at("end").hidden = app.source.is_offline === true || app.source.web !== undefined || is_look;
  for (const [index, [name, title]] of VIEWS.entries()) {
    const tab = element("button", "", title);
    tab.type = "button";
    tab.title = `${title} (${index + 1})`;
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", "view");
    tab.dataset.view = name;
    tab.addEventListener("click", () => app.set({view: name}));
    at("tabs").append(tab);
  }
  at("tabs").addEventListener("keydown", event => {
    const step = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (!step) return;
    event.preventDefault();
    const index = VIEWS.findIndex(([name]) => name === app.state.view);
    app.set({view: VIEWS[(index + step + VIEWS.length) % VIEWS.length][0]});
    tabs().find(tab => tab.dataset.view === app.state.view)?.focus();
  });
  at("colour").append(...COLOURINGS.map(name => new Option(name, name)));
  at("file").addEventListener("change", () => app.set({file: Number(at("file").value), device: first_device(Number(at("file").value))}));
  at("device").addEventListener("change", () => app.set({device: Number(at("device").value)}));
  at("colour").addEventListener("change", () => app.set({colour: /** @type {Colouring} */ (at("colour").value)}));
  at("axis").addEventListener("change", () => change_axis(app, /** @type {Axis} */ (at("axis").value)).catch(error => app.announce(reason_of(error))));
  at("end").addEventListener("click", async () => {
    if (!confirm("Quit memreel view? The page will stay open, but will not be able to load any more data.")) return;
    try {
      await app.source.end();
      app.announce("The server has stopped.");
      at("end").disabled = true;
    } catch (error) {
      app.announce(reason_of(error));
    }
  });
  // On a narrow screen the controls that are not needed at first are shown on demand.
  at("more").addEventListener("click", () => {
    const is_open = document.body.classList.toggle("has-all-controls");
    at("more").setAttribute("aria-expanded", String(is_open));
  });
  at("theme").addEventListener("click", app.toggle_theme);
  at("skip").addEventListener("click", event => {
    event.preventDefault();
    at("view").focus();
  });
}

/**
 * Returns the device that a file begins with: the first on which a request failed, or the first.
 * @param {number} file
 */
function first_device(file) {
  const devices = app.all_files()[file]?.devices ?? [];
  return (devices.find(has_failed) ?? devices[0])?.device ?? 0;
}

/** @param {Device} device */
const has_failed = device => device.markers.some(marker => marker.kind === "oom");

function refresh_bar() {
  const {state} = app;
  for (const tab of tabs()) {
    const is_chosen = tab.dataset.view === state.view;
    tab.setAttribute("aria-selected", String(is_chosen));
    tab.tabIndex = is_chosen ? 0 : -1;
  }
  // What does nothing in a view is not there (style.css).
  document.body.dataset.shown = state.view;
  document.body.classList.toggle("has-block", state.life !== null);
  at("colour").value = state.colour;
  at("axis").value = state.axis;
  // A history without times has one axis.
  at("axis").disabled = app.device()?.first_us === null || app.device()?.last_us === null;
  const names = file_names(app.all_files()).map(name => plain(name, 80));
  options(at("file"), names.map((name, index) => [index, app.all_files()[index].state === "ready" ? name : `${name} (${app.all_files()[index].state})`]), state.file);
  options(at("device"), (app.file()?.devices ?? []).map(of => [of.device, device_name(of.device) + (has_failed(of) ? " (OOM)" : "")]), state.device);
  const file = app.file();
  at("file").title = file ? plain(file.name, 500) : "";
  document.title = file ? `${names[state.file]} - memreel` : "memreel";
}

/** @param {HTMLSelectElement} select @param {[value: number, name: string][]} rows @param {number} value */
function options(select, rows, value) {
  const text = JSON.stringify(rows);
  if (select.dataset.rows !== text) {
    select.dataset.rows = text;
    select.replaceChildren(...rows.map(([of, name]) => new Option(name, String(of))));
  }
  select.value = String(value);
  select.disabled = rows.length < 2;
}

async function poll() {
  let answer;
  try {
    answer = await app.source.files();
  } catch (error) {
    return fail("The server is not responding", reason_of(error), "Start memreel view again; it will have a new address.");
  }
  if (app.source.is_offline && !app.files) show_note();
  const is_new = JSON.stringify(answer) !== JSON.stringify(app.files);
  app.files = answer;
  begin();
  if (is_new) app.notify(new Set(["files"]));
  if (answer.files.some(file => file.state === "reading")) setTimeout(poll, POLL_MS);
}

// Without an address, the page chooses what is shown until all files are read or the reader has changed something: this is
// what it chose. With one, also an empty one ("#": the first file and device 0), it chooses nothing.
/** @type {string | null} */
let chosen = location.href.includes("#") ? null : write(app.state);

/** Shows the file and the device to begin with; only the device where the file that the address names has no device 0. */
function begin() {
  if (chosen !== write(app.state)) chosen = null;
  const first = chosen === null ? null : first_file();
  const file = first ?? app.state.file;
  if (!app.all_files()[file]?.devices?.length) return;
  if (chosen === null && (app.device() || /[#&]device=/.test(location.hash))) return;
  app.set({file, device: first_device(file)});
  const hash = write(app.state);
  if (hash !== (location.hash || "#")) history.replaceState(null, "", hash);
  chosen = first === null ? hash : null;
  const broken = app.all_files().find(of => of.state === "failed");
  if (first !== null && broken) app.announce(`${plain(broken.name, 80)} cannot be shown: ${plain(broken.error ?? "", 200)}`);
}

/** Returns the file to begin with: one on which a request failed, or the one with the highest peak; null until that is known. */
function first_file() {
  const files = app.all_files();
  const failed = files.findIndex(file => file.devices?.some(has_failed));
  if (failed >= 0) return failed;
  if (files.some(file => file.state === "reading")) return null;
  const peaks = files.map(file => Math.max(-1, ...(file.devices ?? []).map(of => of.peak.allocated_bytes)));
  return peaks.indexOf(Math.max(...peaks));
}

// Says what a page that is one file has. The page works without it.
async function show_note() {
  try {
    app.note = await app.source.note?.() ?? null;
  } catch (error) {
    app.note = `Cannot read the contents of this file: ${reason_of(error)}`;
  }
  at("note").textContent = app.note;
}

app.toggle_theme = () => {
  const theme = is_dark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("memreel.theme", theme); } catch { /* the choice is not kept */ }
  app.notify(new Set(["theme"]));
};

function start() {
  document.documentElement.dataset.state = "loading";
  try {
    const theme = localStorage.getItem("memreel.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch { /* the reader's preference holds */ }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => app.notify(new Set(["theme"])));
  app.set(current());
  connect_bar();
  app.on(changed => {
    refresh_bar();
    if (["files", "file", "device", "view"].some(key => changed.has(key))) open();
    else if (app.device()) app.view()?.update(changed);
    if (app.device()) for (const panel of panels) panel.update(changed);
  });
  follow(app);
  open_keys(app, VIEWS.map(([name, title]) => [name, title]));
  create_status(app, at("totals"));
  offer(app, () => [...loaded.values()]);
  open_panels();
  refresh_bar();
  first = app.source.web?.connect(app, poll);
  poll();
}

start();
