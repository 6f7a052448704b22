// Two files, or two moments of one, side by side: both curves on one axis, and what differs by stack.

import {bytes, counted, element, event_number, file_names, moment_of, moment_words, number, percent, plain, reason_of} from "./text.js";
import {create as create_chart, extent} from "./chart.js";
import {button, labelled} from "./controls.js";
import {create as create_latest_request} from "./latest_request.js";

const POINTS = 800;
const STEP = 200;
// The calls of a stack that a row shows.
const CALLS = 4;

/**
 * Creates the view.
 * @param {App} app @returns {View}
 */
export function create(app) {
  const [ask, ask_here, ask_there] = [create_latest_request(), create_latest_request(), create_latest_request()];
  const other = element("select");
  /** @param {"cursor" | "other_moment"} key @param {string} title */
  const moment_field = (key, title) => {
    const input = element("input", "number");
    Object.assign(input, {type: "text", inputMode: "numeric", size: 10, placeholder: "peak", ariaLabel: title});
    input.addEventListener("change", () => {
      const moment = moment_of(input.value);
      if (!Number.isNaN(moment)) app.set({[key]: moment});
      else app.announce(`"${plain(input.value, 40)}" is not an event; use the number of an event, or leave it empty for the peak`);
    });
    return input;
  };
  const [at_before, at_after] = [moment_field("cursor", "Moment (before)"), moment_field("other_moment", "Moment (after)")];
  const before = element("bdi", "compare-name");
  const chart = create_chart("compare-chart", "Active bytes in both files");
  const words = element("div", "compare-words");
  const body = element("tbody");
  const more = button("Show more", "", () => {
    shown += 5 * STEP;
    fill();
  });
  const table = element("table", "compare-table", null, [
    element("thead", "", null, [element("tr", "", null, ["Where", "Before", "After", "Difference", "More in"].map((name, index) => {
      const cell = element("th", index && index < 4 ? "number" : "", name);
      cell.scope = "col";
      return cell;
    }))]), body,
  ]);
  const whole = element("div", "compare", null, [
    element("div", "bar", null, [
      element("span", "", null, [element("span", "quiet", "Before: "), before]), labelled("after event", at_before),
      labelled("After:", other), labelled("after event", at_after),
    ]),
    chart.surface.element, words, element("div", "scroll compare-scroll", null, [table, more]),
  ]);
  /** @type {Change[]} */
  let changes = [];
  let shown = STEP;
  other.addEventListener("change", () => app.set({other: Number(other.value), other_moment: null}));

  const other_file = () => app.state.other ?? (app.all_files().length > 1 ? (app.state.file + 1) % app.all_files().length : app.state.file);

  async function load() {
    const at = other_file();
    const names = file_names(app.all_files());
    const rows = app.all_files().map((file, index) => new Option(plain(names[index], 80) + (index === app.state.file ? " (this file)" : file.state === "ready" ? "" : ` (${file.state})`), String(index)));
    other.replaceChildren(...rows);
    other.value = String(at);
    before.textContent = plain(names[app.state.file], 80);
    at_before.value = moment_text(app.state.cursor);
    at_after.value = moment_text(app.state.other_moment);
    await Promise.all([curves(at, names), differences(at)]);
  }

  // A rank often has another device than the one that is shown; as for the differences, its first one then.
  /** @param {number} at */
  function device_there(at) {
    const devices = app.all_files()[at].devices ?? [];
    return (devices.find(({device}) => device === app.state.device) ?? devices[0])?.device;
  }

  /** @param {number} at @param {string[]} names */
  async function curves(at, names) {
    try {
      const [one, two] = await Promise.all([
        ask_here(app.source.curve, {...app.query(), points: POINTS}), ask_there(app.source.curve, {file: at, device: device_there(at), points: POINTS}),
      ]);
      if (!one || !two) return;
      const list = [{name: "before", ink: "--reserved", points: active(one)}, {name: "after", ink: "--accent", points: active(two), is_dashed: true}];
      chart.draw({curves: list, ...extent(list)}, `Active bytes of ${plain(names[app.state.file])} and of ${plain(names[at])}`);
    } catch (error) {
      app.announce(reason_of(error));
    }
  }

  /** @param {number} at */
  async function differences(at) {
    const params = {...app.query(), other: at, other_device: device_there(at), moment: app.state.cursor, other_moment: app.state.other_moment};
    try {
      const got = await ask(app.source.diff, params);
      if (!got) return;
      changes = got.changes;
      shown = STEP;
      describe(got);
      fill();
    } catch (error) {
      changes = [];
      fill();
      words.replaceChildren(element("p", "error", `Cannot show the differences: ${plain(reason_of(error))}`));
    }
  }

  /** @param {Difference} got */
  function describe(got) {
    /** @param {string} name @param {string} ink @param {Totals} totals @param {"cursor" | "other_moment"} key */
    const side = (name, ink, totals, key) => {
      const mark = element("span", `swatch ${ink}`);
      const place = app.state[key] === null ? "at its peak" : "at the moment chosen";
      return element("p", "", null, [mark, ` ${name}, ${place} (${moment_words(totals.moment)}): active ${bytes(totals.active_bytes)}, allocated ${bytes(totals.allocated_bytes)}, reserved ${bytes(totals.reserved_bytes)}, ${counted(totals.n_blocks, "block")}`]);
    };
    table.hidden = false;
    const change = got.after.active_bytes - got.before.active_bytes;
    const share = got.before.active_bytes ? ` (${change < 0 ? "−" : "+"}${percent(Math.abs(change) / got.before.active_bytes)})` : "";
    const is_itself = got.before.moment === got.after.moment && other_file() === app.state.file;
    if (is_itself) {
      const how = app.all_files().length > 1 ? "Select another file above" : "To compare two files, open both: memreel view BEFORE AFTER";
      changes = [];
      table.hidden = true;
      words.replaceChildren(element("p", "", `This compares a moment with itself. ${how}; or, to compare two moments of this file, enter their events above.`));
      Object.assign(whole.dataset, {before: got.before.active_bytes, after: got.after.active_bytes, changes: 0});
      return;
    }
    words.replaceChildren(
      side("Before", "reserved-ink", got.before, "cursor"), side("After", "accent-ink", got.after, "other_moment"),
      element("p", "", null, [element("b", "", change ? `${signed(change)}${share} of active memory` : "Active memory is unchanged"), `; ${counted(changes.length, "stack")}`]),
    );
    Object.assign(whole.dataset, {before: got.before.active_bytes, after: got.after.active_bytes, changes: changes.length});
  }

  function fill() {
    const most = changes.reduce((sum, of) => Math.max(sum, Math.abs(of.bytes_after - of.bytes_before)), 1);
    body.replaceChildren(...changes.slice(0, shown).map(of => line(of, most)));
    more.hidden = changes.length <= shown;
    more.textContent = `Show more (${number(changes.length - shown)} left)`;
  }

  /** @param {Change} of @param {number} most */
  function line(of, most) {
    const change = of.bytes_after - of.bytes_before;
    const open = element("button", "quiet compare-where code", null, [element("bdi", "", plain(called(of)))]);
    open.type = "button";
    open.setAttribute("aria-expanded", "false");
    const where = element("td", "", null, [open]);
    open.addEventListener("click", () => expand(where, open, of));
    const bar = element("div", change < 0 ? "diff-bar less" : "diff-bar");
    bar.style.width = `${Math.max(change ? 1 : 0, 100 * Math.abs(change) / most)}%`;
    return element("tr", "", null, [
      where, amount(of.bytes_before, of.n_before), amount(of.bytes_after, of.n_after), element("td", "number", change ? signed(change) : "0 B"),
      element("td", "diff-place", null, [bar]),
    ]);
  }

  /** @param {Changed} changed */
  function update(changed) {
    if (["other", "other_moment", "cursor", "file", "device"].some(key => changed.has(key))) load();
    if (changed.has("theme")) chart.surface.request();
  }

  function text() {
    const rows = changes.map(of => [plain(called(of), 2000), of.bytes_before, of.bytes_after, of.bytes_after - of.bytes_before, of.n_before, of.n_after].join("\t"));
    return [...[...words.children].map(of => of.textContent.trim()), ["Where", "Before (bytes)", "After (bytes)", "Difference (bytes)", "Blocks (before)", "Blocks (after)"].join("\t"), ...rows].join("\n");
  }

  return {element: whole, show: load, hide: () => [ask, ask_here, ask_there].forEach(of => of.stop()), update, text, canvas: () => chart.surface.canvas, svg: () => chart.surface.svg()};
}

// A stack in one line: several differ only in their callers.
/** @param {Change} of */
function called({where, frames}) {
  return frames.slice(0, CALLS).join(" ← ") || where || "no stack";
}

/** @param {{points: [number, number, number][]}} of @returns {Point[]} */
function active({points}) {
  return points.map(([moment, count]) => [moment, count]);
}

/** @param {HTMLElement} place @param {HTMLElement} open @param {Change} of */
function expand(place, open, of) {
  const list = place.querySelector("ol");
  open.setAttribute("aria-expanded", String(!list));
  if (list) list.remove();
  else place.append(element("ol", "compare-frames", null, of.frames.map(one => element("li", "", null, [element("bdi", "", plain(one, 400))]))));
}

/** @param {number} size @param {number} count */
function amount(size, count) {
  return element("td", "number", null, [size ? bytes(size) : "–", element("span", "quiet", size ? ` in ${number(count)}` : "")]);
}

/** @param {number} change */
function signed(change) {
  return `${change < 0 ? "−" : "+"}${bytes(Math.abs(change))}`;
}

/** @param {number | null} moment */
function moment_text(moment) {
  return moment === null ? "" : event_number(moment);
}
