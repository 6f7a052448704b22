// Two files, or two moments of one, side by side: both curves on one axis, and what differs by stack.

import {bytes, counted, element, file_names, frame, number, percent, plain} from "./text.js";
import {create as create_chart, extent} from "./chart.js";
import {create as create_latest} from "./latest.js";

const POINTS = 800;
const STEP = 200;
// The calls of a stack that a row shows.
const CALLS = 4;

/** Creates the view. */
export function create(app) {
  const [ask, ask_here, ask_there] = [create_latest(), create_latest(), create_latest()];
  const other = element("select");
  const moments = [["cursor", "Moment before"], ["other_moment", "Moment after"]].map(([key, title]) => {
    const input = element("input", "number");
    Object.assign(input, {type: "text", inputMode: "numeric", size: 10, placeholder: "peak", ariaLabel: title});
    input.addEventListener("change", () => {
      const text = input.value.replaceAll(",", "").trim();
      if (/^\d{0,15}$/.test(text)) app.set({[key]: text === "" ? null : Number(text)});
      else app.announce(`"${plain(input.value, 40)}" is not a moment; use a number of events, or nothing for the peak`);
    });
    return [key, input];
  });
  const before = element("bdi", "compare-name");
  const chart = create_chart("compare-chart", "Active bytes of both");
  const words = element("div", "compare-words");
  const body = element("tbody");
  const more = element("button", "", "Show more");
  more.type = "button";
  const table = element("table", "compare-table", null, [
    element("thead", "", null, [element("tr", "", null, ["Where", "Before", "After", "Difference", "Bar"].map((name, index) => {
      const cell = element("th", index && index < 4 ? "number" : "", name);
      cell.scope = "col";
      return cell;
    }))]), body,
  ]);
  const whole = element("div", "compare", null, [
    element("div", "bar", null, [
      element("span", "", null, [element("span", "quiet", "Before: "), before]), labelled("at", moments[0][1]),
      labelled("After:", other), labelled("at", moments[1][1]),
    ]),
    chart.surface.element, words, element("div", "scroll compare-scroll", null, [table, more]),
  ]);
  let changes = [];
  let shown = STEP;
  let answer = null;
  other.addEventListener("change", () => app.set({other: Number(other.value), other_moment: null}));
  more.addEventListener("click", () => {
    shown += 5 * STEP;
    fill();
  });

  const other_file = () => app.state.other ?? (app.files.files.length > 1 ? (app.state.file + 1) % app.files.files.length : app.state.file);

  async function load() {
    const at = other_file();
    const names = file_names(app.files.files);
    const rows = app.files.files.map((file, index) => new Option(plain(names[index], 80) + (index === app.state.file ? " (this file)" : file.state === "ready" ? "" : ` (${file.state})`), index));
    other.replaceChildren(...rows);
    other.value = at;
    before.textContent = plain(names[app.state.file], 80);
    for (const [key, input] of moments) input.value = app.state[key] === null ? "" : number(app.state[key]);
    await Promise.all([curves(at, names), differences(at)]);
  }

  // A rank often has another device than the one that is shown; as for the differences, its first one then.
  function device_there(at) {
    const devices = app.files.files[at].devices ?? [];
    return (devices.find(({device}) => device === app.state.device) ?? devices[0])?.device;
  }

  async function curves(at, names) {
    try {
      const [one, two] = await Promise.all([
        ask_here(app.source.curve, {...app.query(), points: POINTS}), ask_there(app.source.curve, {file: at, device: device_there(at), points: POINTS}),
      ]);
      if (!one || !two) return;
      const list = [{name: "before", ink: "--reserved", points: active(one)}, {name: "after", ink: "--accent", points: active(two), is_dashed: true}];
      chart.draw({curves: list, ...extent(list)}, `Active bytes of ${plain(names[app.state.file])} and of ${plain(names[at])}`);
    } catch (error) {
      app.announce(error.message);
    }
  }

  async function differences(at) {
    const params = {...app.query(), other: at, other_device: device_there(at), moment: app.state.cursor, other_moment: app.state.other_moment};
    try {
      const got = await ask(app.source.diff, params);
      if (!got) return;
      answer = got;
      changes = got.changes;
      shown = STEP;
      describe();
      fill();
    } catch (error) {
      answer = null;
      changes = [];
      fill();
      words.replaceChildren(element("p", "error", `The difference cannot be shown: ${plain(error.message)}`));
    }
  }

  function describe() {
    const side = (name, ink, totals, key) => {
      const mark = element("span", `swatch ${ink}`);
      const place = app.state[key] === null ? "at its peak" : "at the moment chosen";
      return element("p", "", null, [mark, ` ${name}, ${place} (moment ${number(totals.moment)}): active ${bytes(totals.active_bytes)}, allocated ${bytes(totals.allocated_bytes)}, reserved ${bytes(totals.reserved_bytes)}, ${counted(totals.n_blocks, "block")}`]);
    };
    const change = answer.after.active_bytes - answer.before.active_bytes;
    const share = answer.before.active_bytes ? ` (${change < 0 ? "−" : "+"}${percent(Math.abs(change) / answer.before.active_bytes)})` : "";
    words.replaceChildren(
      side("Before", "reserved-ink", answer.before, "cursor"), side("After", "accent-ink", answer.after, "other_moment"),
      element("p", "", null, [element("b", "", change ? `${signed(change)}${share} of active memory` : "Active memory is equal"), `; ${counted(changes.length, "stack")}`]),
    );
    Object.assign(whole.dataset, {before: answer.before.active_bytes, after: answer.after.active_bytes, changes: changes.length});
  }

  function fill() {
    const most = changes.reduce((sum, of) => Math.max(sum, Math.abs(of.bytes_after - of.bytes_before)), 1);
    body.replaceChildren(...changes.slice(0, shown).map(of => line(of, most)));
    more.hidden = changes.length <= shown;
    more.textContent = `Show more (${number(changes.length - shown)} left)`;
  }

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

  function update(changed) {
    if (["other", "other_moment", "cursor", "file", "device"].some(key => changed.has(key))) load();
    if (changed.has("theme")) chart.surface.request();
  }

  function text() {
    const rows = changes.map(of => [plain(called(of), 2000), of.bytes_before, of.bytes_after, of.bytes_after - of.bytes_before, of.n_before, of.n_after].join("\t"));
    return [...[...words.children].map(of => of.textContent.trim()), ["Where", "Before (bytes)", "After (bytes)", "Difference (bytes)", "Blocks before", "Blocks after"].join("\t"), ...rows].join("\n");
  }

  return {element: whole, show: load, hide: () => [ask, ask_here, ask_there].forEach(of => of.stop()), update, text, canvas: () => chart.surface.canvas, svg: () => chart.surface.svg()};
}

// A stack in one line: several differ only in their callers.
function called({where, frames}) {
  return frames.slice(0, CALLS).join(" ← ") || where || "no stack";
}

function active({points}) {
  return points.map(([moment, count]) => [moment, count]);
}

function expand(place, open, of) {
  const list = place.querySelector("ol");
  open.setAttribute("aria-expanded", !list);
  if (list) list.remove();
  else place.append(element("ol", "compare-frames", null, of.frames.map(one => element("li", "", null, [element("bdi", "", plain(typeof one === "string" ? one : frame(one), 400))]))));
}

function amount(size, count) {
  return element("td", "number", null, [size ? bytes(size) : "–", element("span", "quiet", size ? ` in ${number(count)}` : "")]);
}

function signed(change) {
  return `${change < 0 ? "−" : "+"}${bytes(Math.abs(change))}`;
}

function labelled(title, input) {
  return element("label", "", null, [title, input]);
}
