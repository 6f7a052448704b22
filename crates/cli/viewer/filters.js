// The bar of filters: stream, pool, owner, scope, action, sizes and the search, and a chip for each that is on.

import {bytes, counted, element, events_between, number, plain, reason_of} from "./text.js";
import {labelled} from "./controls.js";
import {create as create_latest_request} from "./latest_request.js";

const MOST_SCOPES = 1000;
const WAIT_MS = 250;
/** @type {Record<string, number>} */
const UNITS = {"": 1, b: 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3, t: 1024 ** 4};
// What may have happened to a block.
const ACTIONS = [["alloc", "allocated"], ["free_requested", "freed"], ["free_completed", "free completed"], ["kept", "allocated, never freed"]];
/** @type {[key: "stream" | "pool" | "owner", all: "streams" | "pools" | "owners", title: string][]} */
const CHOICES = [["stream", "streams", "Stream"], ["pool", "pools", "Pool"], ["owner", "owners", "Owner"]];

/**
 * Returns the bytes of a text such as "512", "1.5MiB" or "2 G"; null if it is not a size.
 * @param {string} text
 */
export function size_of(text) {
  const parts = /^\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*$/i.exec(text);
  return parts ? Math.round(Number(parts[1]) * UNITS[parts[2].toLowerCase()]) : null;
}

/**
 * Returns the filters of a state in which one has another value. "" and null turn it off.
 * @param {Filters} filters @param {keyof Filters} key @param {string | number | null} value @returns {Filters}
 */
export function with_filter(filters, key, value) {
  const next = {...filters};
  if (value === null || value === "") delete next[key];
  else next[key] = String(value);
  return next;
}

/**
 * Creates the bar.
 * @param {App} app @returns {View}
 */
export function create(app) {
  const ask = create_latest_request();
  const search = field("search", "Search", "frame, name or 0x…", 17);
  search.id = "search";
  const selects = CHOICES.map(([key, all, title]) => {
    const input = element("select");
    input.addEventListener("change", () => put(key, input.value));
    return {key, all, input, label: labelled(title, input)};
  });
  const action = element("select");
  action.addEventListener("change", () => {
    const {interval} = app.state;
    // With an interval marked, what happened in it.
    put("action", action.value && interval ? `${action.value}:${interval[0]}-${interval[1]}` : action.value);
  });
  const action_label = labelled("Action", action);
  const scope = field("text", "Scope", "any", 9);
  const scope_label = labelled("Scope", scope);
  const scopes = element("datalist");
  scopes.id = "scopes";
  scope.setAttribute("list", "scopes");
  const sizes = /** @type {const} */ ([["least_bytes", "At least", "1MiB"], ["most_bytes", "At most", "2GiB"]]).map(([key, title, example]) => {
    const input = Object.assign(field("text", title, "any", 7), {title: `For example ${example}`});
    input.addEventListener("change", () => {
      const size = input.value.trim() ? size_of(input.value) : "";
      input.setAttribute("aria-invalid", String(size === null));
      if (size === null) app.announce(`"${plain(input.value, 40)}" is not a size; use for example 512KiB or 2GiB`);
      else put(key, size);
    });
    return {key, input, label: labelled(title, input)};
  });
  const fields = [...selects, {input: action, label: action_label}, {input: scope, label: scope_label}, ...sizes];
  const chips = element("span", "chips");
  const count = element("output", "quiet filter-count");
  const whole = element("div", "filters", null, [
    labelled("Search", search), ...selects.map(of => of.label), action_label, scope_label, scopes, ...sizes.map(of => of.label), chips, count,
  ]);
  let timer = 0;
  let last_count = "";
  /** @type {Scope[] | null} */
  let listed = null;
  /** @type {string[]} */
  let names = [];

  /** @param {keyof Filters} key @param {string | number} value */
  const put = (key, value) => app.set({filters: with_filter(app.state.filters, key, value)});
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => app.set({search: search.value.trim()}), WAIT_MS);
  });
  search.addEventListener("keydown", event => {
    if (event.key !== "Escape" && event.key !== "Enter") return;
    // The second Escape leaves the field.
    if (event.key === "Escape" && !search.value) return search.blur();
    if (event.key === "Escape") search.value = "";
    clearTimeout(timer);
    app.set({search: search.value.trim()});
    event.stopPropagation();
  });
  scope.addEventListener("change", () => put("scope", scope.value));

  function refresh() {
    const device = app.device();
    if (!device) return;
    const {filters} = app.state;
    for (const {key, all, input, label} of selects) {
      const names = device[all] ?? [];
      options(input, names, filters[key]);
      label.hidden = names.length < 2 && filters[key] === undefined;
    }
    const named = filters.action === undefined || ACTIONS.some(([name]) => name === filters.action) ? ACTIONS : [...ACTIONS, [filters.action, action_text(filters.action)]];
    options(action, named.map(([name]) => name), filters.action, named.map(([, text]) => text));
    action.title = app.state.interval ? "Filter by what happened to a block in the marked interval" : "Filter by what happened to a block. To look only at an interval, mark it first (b, or Shift-drag)";
    if (listed !== device.scopes) {
      listed = device.scopes;
      names = paths_of(listed).slice(0, MOST_SCOPES);
      scopes.replaceChildren(...names.map(name => new Option("", name)));
    }
    scope_label.hidden = !names.length && filters.scope === undefined;
    write(scope, filters.scope ?? "");
    write(search, app.state.search);
    for (const {key, input} of sizes) write(input, filters[key] === undefined ? "" : size_text(Number(filters[key])));
    chips.replaceChildren(...chips_of(app, put));
    enable();
    count_blocks();
  }

  // A page that is one file has pictures of all blocks, and the rows of the largest.
  function enable() {
    const is_off = app.source.is_offline === true && app.state.view !== "list";
    for (const {input, label} of fields) {
      input.disabled = is_off;
      label.title = is_off ? "In this exported page, filters work only in Blocks; to use them everywhere, open the recording with memreel view" : "";
    }
  }

  async function count_blocks() {
    const params = app.filtered();
    const is_unfiltered = app.source.is_offline && app.state.view !== "list" && Object.keys(app.state.filters).length > 0;
    const of = JSON.stringify([params, is_unfiltered]);
    if (of === last_count) return;
    last_count = of;
    const n = app.shown().n_lives;
    if (!app.state.search && !Object.keys(app.state.filters).length) {
      ask.stop();
      count.textContent = `${number(n)} blocks`;
      return;
    }
    if (is_unfiltered) {
      ask.stop();
      count.textContent = "filters only apply to Blocks";
      return;
    }
    count.textContent = "counting…";
    try {
      const answer = await ask(app.source.list, {...params, sort: "from", offset: 0, count: 1});
      if (answer) count.textContent = `${number(answer.n)} of ${among(answer, n)}`;
    } catch (error) {
      count.textContent = plain(reason_of(error));
    }
  }

  /** @param {Changed} changed */
  function update(changed) {
    if (["filters", "search", "file", "device", "files", "view", "interval"].some(key => changed.has(key))) refresh();
  }

  return {element: whole, show: refresh, hide() {}, update};
}

/**
 * Returns what an answer of the list was chosen from: "20 blocks", or "the 20 largest of 300 blocks" in a page that is one file.
 * @param {{n_kept?: number | null | undefined}} of @param {number | undefined} n
 */
export function among({n_kept}, n) {
  return n_kept === undefined || n_kept === null || n_kept === n ? counted(n, "block") : `the ${number(n_kept)} largest of ${counted(n, "block")}`;
}

/**
 * Returns the distinct paths of scopes, such as "step#3/forward", in the order in which they begin.
 * @param {Scope[]} scopes
 */
export function paths_of(scopes) {
  return [...new Set([...scopes].sort((a, b) => a.from - b.from || a.depth - b.depth).map(({path}) => path))];
}

/** @param {App} app @param {(key: keyof Filters, value: string) => void} put */
function chips_of(app, put) {
  const {filters, search} = app.state;
  /** @type {[key: keyof Filters, word: string][]} */
  const words = [["stream", "stream"], ["pool", "pool"], ["owner", "owner"], ["scope", "scope"], ["action", ""], ["least_bytes", "at least"], ["most_bytes", "at most"]];
  const all = words.filter(([key]) => filters[key] !== undefined)
    .map(([key, word]) => chip(`${word} ${value_text(key, filters[key] ?? "")}`.trim(), () => put(key, "")));
  if (search) all.push(chip(`search ${plain(search, 40)}`, () => app.set({search: ""})));
  if (all.length > 1) all.push(chip("all", () => app.set({filters: {}, search: ""})));
  return all;
}

/** @param {keyof Filters} key @param {string} value */
function value_text(key, value) {
  if (key === "action") return action_text(value);
  return key.endsWith("_bytes") ? bytes(Number(value)) : plain(value, 40);
}

/**
 * Returns the words for an action: "allocated", or "allocated in 120-340".
 * @param {string} value
 */
function action_text(value) {
  const [name, interval] = value.split(":");
  const text = ACTIONS.find(([of]) => of === name)?.[1] ?? plain(name, 40);
  const [from, until] = (interval ?? "").split("-").map(Number);
  if (!interval) return text;
  return until > from ? `${text} in ${events_between(from, until)}` : `${text} in ${plain(interval, 40)}`;
}

/** @param {string} text @param {() => void} remove */
function chip(text, remove) {
  const made = element("button", "chip", null, [element("bdi", "", text), " ×"]);
  Object.assign(made, {type: "button", title: "Remove this filter", ariaLabel: `Remove the filter ${text}`});
  made.addEventListener("click", remove);
  return made;
}

/** @param {string} type @param {string} title @param {string} placeholder @param {number} size */
function field(type, title, placeholder, size) {
  const input = element("input");
  Object.assign(input, {type, placeholder, size, ariaLabel: title, autocomplete: "off", spellcheck: false});
  return input;
}

/** @param {HTMLSelectElement} select @param {(string | number)[]} names @param {string | undefined} value @param {(string | number)[]} [texts] */
function options(select, names, value, texts = names) {
  const all = value === undefined || names.some(name => String(name) === value) ? names : [...names, value];
  const rows = JSON.stringify(all);
  if (select.dataset.rows !== rows) {
    select.dataset.rows = rows;
    select.replaceChildren(new Option("all", ""), ...all.map((name, at) => new Option(plain(texts[at] ?? name, 60), String(name))));
  }
  select.value = value ?? "";
}

// A field that the reader is in keeps what is written there.
/** @param {HTMLInputElement} input @param {string} value */
function write(input, value) {
  if (input !== document.activeElement || input.type !== "search") input.value = value;
}

// The shortest text that is read as the same size.
/** @param {number} size */
function size_text(size) {
  for (const [unit, factor] of /** @type {const} */ ([["GiB", UNITS.g], ["MiB", UNITS.m], ["KiB", UNITS.k]])) {
    if (size >= factor && size % (factor / 4) === 0) return `${size / factor}${unit}`;
  }
  return String(size);
}
