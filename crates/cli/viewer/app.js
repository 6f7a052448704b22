// The state of the page and those who listen to it.

import {defaults} from "./address.js";
import {reason_of} from "./text.js";

// What means nothing once another file or device is shown.
const OF_A_DEVICE = {range: null, vertical: null, interval: null, cursor: null, life: null};

/**
 * Returns the app:
 * - `state`: file, device, view, axis, range ([from, to] on the axis; null is all), vertical ([low, high] bytes; null is all),
 *   interval ([from, to] in moments that was brushed; null is none), cursor (moment), life (the pinned block), colour, filters
 *   ({stream, pool, owner, scope, least_bytes, most_bytes, action}, absent if off), search, and the keys of single views (address.js);
 * - `set(patch)`: changes the state and calls the listeners with the set of keys that changed;
 * - `on(listener)`: adds a listener and returns a function that removes it. The key "files" means that the answer of `files` changed,
 *   "curves" that a curve was added, "theme" that light became dark;
 * - `source`: the server;
 * - `files`, `file()`, `device()`: the answer of `files`, the file and the device that are shown (null while unknown);
 *   `all_files()`: the files (none while unknown); `shown()`: the device, where there must be one;
 * - `query()`: {file, device}; `filtered()`: the same with the filters and the search; `moment()`: the cursor, or else the peak;
 * - `pin(life)`, `goto(moment)`: show a block or a moment, in the view that is open; `select(address, moment)`: finds and pins, or says why not and rejects;
 * - `curve(name, points)`: draws [[moment, bytes], …] in the timeline; null removes it;
 * - `announce(text)`: says a text to screen readers and in the line of messages;
 * - `view()`, `toggle_theme()`: main.js replaces them; `show_life(block)`: the timeline, which zooms to the life as well.
 *
 * @param {Source} source @returns {App}
 */
export function create(source) {
  /** @type {Set<(changed: Changed) => void>} */
  const listeners = new Set();
  /** @type {App} */
  const app = {
    state: defaults(),
    source,
    files: null,
    curves: new Map(),
    times: new Map(),
    totals: null,
    note: null,
    set(patch) {
      const changed = new Set();
      const state = /** @type {Record<string, unknown>} */ (app.state);
      let all = patch;
      if (moves(app.state, patch)) all = {...OF_A_DEVICE, ...patch};
      else if ("axis" in patch && patch.axis !== app.state.axis) all = {range: null, ...patch};
      for (const [key, value] of Object.entries(all)) {
        if (JSON.stringify(state[key]) === JSON.stringify(value)) continue;
        state[key] = value;
        changed.add(key);
      }
      if (changed.size) app.notify(changed);
    },
    on(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    notify(changed) {
      for (const listener of [...listeners]) {
        // One view that fails must not stop the others.
        try { listener(changed); } catch (error) { console.error(error); }
      }
    },
    file: () => app.files?.files[app.state.file] ?? null,
    device: () => app.file()?.devices?.find(of => of.device === app.state.device) ?? null,
    all_files: () => app.files?.files ?? [],
    shown() {
      const device = app.device();
      if (!device) throw new Error("no device is shown");
      return device;
    },
    query: () => ({file: app.state.file, device: app.state.device}),
    filtered: () => ({...app.query(), ...app.state.filters, search: app.state.search}),
    moment: () => app.state.cursor ?? app.device()?.peak.moment ?? 0,
    pin: life => app.set({life}),
    goto: moment => app.set({cursor: clamp(Math.round(moment), 0, app.device()?.n_events ?? 0)}),
    async select(address, moment = app.moment()) {
      try {
        const block = await source.block({...app.query(), address, moment});
        app.set({life: block.life});
        return block;
      } catch (error) {
        app.announce(reason_of(error));
        throw error;
      }
    },
    curve(name, points) {
      if (points) app.curves.set(name, points);
      else app.curves.delete(name);
      app.notify(new Set(["curves"]));
    },
    view: () => null,
    toggle_theme() {},
    show_life: block => app.set({view: "timeline", life: block.life}),
    announce(text) {
      const line = document.getElementById("message");
      if (line) line.textContent = text;
    },
  };
  return app;
}

/** @param {State} state @param {Partial<State>} patch */
function moves(state, patch) {
  return ("file" in patch && patch.file !== state.file) || ("device" in patch && patch.device !== state.device);
}

/**
 * Returns a number within bounds.
 * @param {number} number @param {number} least @param {number} most
 */
export function clamp(number, least, most) {
  return Math.min(Math.max(number, least), most);
}
