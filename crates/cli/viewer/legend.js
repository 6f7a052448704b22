// The groups of the present colour with their bytes at the peak. A click filters by a group, or searches for it.

import {css} from "./colours.js";
import {bytes, element, number, percent, plain, reason_of} from "./text.js";
import {button} from "./controls.js";
import {create as create_latest_request} from "./latest_request.js";
import {with_filter} from "./filters.js";

const MOST_SHOWN = 12;

/**
 * Creates the panel.
 * @param {App} app @returns {View}
 */
export function create(app) {
  const ask = create_latest_request();
  const title = element("h2", "", "Colours");
  const list = element("ul", "legend-list");
  const rest = button("", "", () => {
    is_long = true;
    draw();
  }, "quiet");
  const note = element("p", "quiet legend-note", "Blocks in other colours are not there at the peak: point at one to see what it is.");
  const whole = element("div", "legend", null, [title, list, rest, note]);
  /** @type {Group[]} */
  let groups = [];
  /** @type {Map<number, string>} */
  let names = new Map();
  app.group_name = group => names.get(group) ?? "a group that holds nothing at the peak";
  let wanted = "";
  let is_long = false;

  async function load() {
    const {colour, filters} = app.state;
    const params = {...app.query(), ...filters, colour};
    if (JSON.stringify(params) === wanted) return draw();
    wanted = JSON.stringify(params);
    try {
      const answer = await ask(app.source.groups, params);
      if (!answer) return undefined;
      groups = answer.groups;
      names = new Map(groups.map(of => [of.group, of.name]));
      list.dataset.colour = colour;
    } catch (error) {
      list.replaceChildren(element("li", "error", plain(reason_of(error))));
      return undefined;
    }
    return draw();
  }

  function draw() {
    const colour = /** @type {Colouring} */ (list.dataset.colour);
    const all = groups.reduce((sum, of) => sum + of.bytes, 0);
    title.textContent = colour ? `By ${colour}, at the peak` : "";
    list.replaceChildren(...groups.slice(0, is_long ? groups.length : MOST_SHOWN).map(of => item(of, colour, all)));
    note.hidden = !groups.length || groups.length > MOST_SHOWN && !is_long;
    rest.hidden = is_long || groups.length <= MOST_SHOWN;
    rest.textContent = `Show ${number(groups.length - MOST_SHOWN)} more`;
  }

  /** @param {Group} group @param {Colouring} colour @param {number} all */
  function item(group, colour, all) {
    const swatch = element("span", "swatch");
    swatch.style.background = css(colour, group.group);
    const name = plain(group.name);
    // A page that is one file can search in a picture, and not filter it.
    const change = choice(app.state, colour, group);
    const patch = app.source.is_offline && change?.filters ? null : change;
    const button = element("button", "quiet legend-item", null, [swatch, element("bdi", "ellipsis grow", name), element("span", "number", bytes(group.bytes))]);
    button.type = "button";
    button.title = `${name}: ${bytes(group.bytes)}${all ? `, ${percent(group.bytes / all)}` : ""}`;
    button.disabled = !patch;
    if (patch) {
      const is_on = is_chosen(app.state, patch);
      button.setAttribute("aria-pressed", String(is_on));
      button.addEventListener("click", () => app.set(is_on ? undone(app.state, colour) : patch));
    }
    return element("li", "", null, [button]);
  }

  /** @param {Changed} changed */
  function update(changed) {
    if (["file", "device", "files"].some(key => changed.has(key))) is_long = false;
    if (["colour", "filters", "search", "file", "device", "files"].some(key => changed.has(key))) load();
  }

  return {element: whole, show: load, hide() {}, update};
}

// The change of the state that shows one group: a filter where there is one, a search for frames; null for ages.
/** @param {State} state @param {Colouring} colour @param {Group} group @returns {Partial<State> | null} */
function choice({filters}, colour, {group, name}) {
  switch (colour) {
    case "pool": case "owner": case "scope": return {filters: with_filter(filters, colour, name)};
    case "stream": return {filters: with_filter(filters, "stream", name.replace(/^stream /, ""))};
    case "size": return {filters: with_filter(with_filter(filters, "least_bytes", 2 ** group), "most_bytes", 2 ** (group + 1) - 1)};
    case "stack": case "function": return {search: function_of(name)};
    default: return null;
  }
}

// The name of the innermost function in "train.py:12 forward ← main.py:3 run" or "forward (train.py)": a search is for a part
// of one frame. A name that was shortened is searched by its longer half.
/** @param {string} text */
function function_of(text) {
  const call = text.split(" ← ")[0].replace(/^\S+:\d+ /, "").replace(/ \([^()]*\)$/, "");
  return call.split("…").reduce((longest, part) => (part.length > longest.length ? part : longest), "").trim();
}

/** @param {State} state @param {Partial<State>} patch */
function is_chosen(state, patch) {
  const values = /** @type {Record<string, unknown>} */ (state);
  return Object.entries(patch).every(([key, value]) => JSON.stringify(values[key]) === JSON.stringify(value));
}

/** @param {State} of @param {Colouring} colour */
function undone({filters}, colour) {
  if (colour === "stack" || colour === "function") return {search: ""};
  const keys = /** @type {(keyof Filters)[]} */ (colour === "size" ? ["least_bytes", "most_bytes"] : [colour]);
  return {filters: keys.reduce((of, key) => with_filter(of, key, null), filters)};
}
