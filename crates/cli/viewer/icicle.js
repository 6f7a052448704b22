// The stacks of what is live, was allocated or was freed, as an icicle: the outermost frames on top, widths by bytes.

import {css, text_on, token} from "./colours.js";
import {WHOLE, bytes, counted, element, events_between, exact_bytes, file_line, frame, moment_words, number, percent, plain, reason_of} from "./text.js";
import {create as create_surface, label} from "./surface.js";
import {create as create_tip} from "./tip.js";
import {button} from "./controls.js";
import {create as create_latest_request} from "./latest_request.js";
import {folded, mark, neighbour, path_of, same, tree_of} from "./branches.js";

const ROW = 20;
/** @type {[what: State["what"], name: string][]} */
const WHAT = [["live", "Live at the cursor"], ["allocated", "Allocated in the interval"], ["freed", "Freed in the interval"]];

/**
 * Creates the view.
 * @param {App} app @returns {View}
 */
export function create(app) {
  const ask = create_latest_request();
  /** @type {Icicle | null} */
  let answer = null;
  /** @type {Branch[]} */
  let tree = [];
  /** @type {Branch | null} */
  let zoomed = null;
  /** @type {Branch | null} */
  let chosen = null;
  let top = 0;
  // The chains of calls that the reader opened.
  /** @type {Set<number>} */
  const open = new Set();
  const choices = WHAT.map(([what, name]) => ({what, button: button(name, "", () => app.set({what}))}));
  const summary = element("span", "quiet");
  summary.setAttribute("aria-live", "polite");
  const out = button("Zoom out", "Escape", () => zoom(null));
  const surface = create_surface("icicle-surface", paint);
  const spacer = element("div", "spacer");
  const scroller = element("div", "scroll segments-scroll", null, [surface.element, spacer]);
  scroller.tabIndex = 0;
  scroller.setAttribute("role", "application");
  scroller.setAttribute("aria-label", "Stacks by bytes. Arrow keys move between frames, Enter zooms, Escape zooms out.");
  const room = element("div", "segments-room", null, [scroller]);
  const tip = create_tip(app, room);
  const path = element("div", "icicle-path scroll");
  path.setAttribute("aria-label", "Path of the selected frame");
  const whole = element("div", "icicle", null, [element("div", "bar", null, [...choices.map(of => of.button), out, summary, element("span", "quiet icicle-note", "Width: bytes. Colour: source file. Grey: folded calls, click to open.")]), room, path]);

  function params() {
    const {what, interval, filters} = app.state;
    const of = {...app.query(), ...filters, what};
    if (what === "live") return {...of, moment: app.moment()};
    const [from, to] = interval ?? [0, app.shown().n_events];
    return {...of, from, to};
  }

  async function load() {
    for (const {what, button} of choices) button.setAttribute("aria-pressed", String(what === app.state.what));
    let got;
    try {
      got = await ask(app.source.icicle, params());
    } catch (error) {
      summary.textContent = `Cannot show the stacks: ${plain(reason_of(error))}`;
      return;
    }
    if (!got) return;
    answer = got;
    open.clear();
    grow();
    Object.assign(whole.dataset, {bytes: got.bytes, blocks: got.n_blocks, branches: got.branches.length});
    search();
  }

  // A search is in all calls.
  function grow() {
    if (!answer) return;
    tree = tree_of(app.state.search ? answer : folded(answer, open));
    zoomed = same(tree, zoomed);
    chosen = same(tree, chosen);
    spacer.style.height = `${(tree.reduce((most, of) => Math.max(most, of.depth), 0) + 2) * ROW}px`;
  }

  function search() {
    if (!answer) return;
    const sum = mark(tree, app.state.search);
    const {what, interval} = app.state;
    const parts = [`${bytes(answer.bytes)} in ${counted(answer.n_blocks, "block")}`];
    if (what === "live") parts.push(moment_words(app.moment()));
    else parts.push(interval ? `in ${events_between(interval[0], interval[1])}` : "in the whole history (mark an interval in the timeline)");
    if (app.state.search) parts.push(`${bytes(sum)} (${percent(answer.bytes ? sum / answer.bytes : 0)}) match`);
    if (answer.n_left_out) parts.push(`${number(answer.n_left_out)} small branches not shown`);
    summary.textContent = parts.join("; ");
    describe();
  }

  // The chosen branch's whole path, as text.
  function describe() {
    const all = answer?.bytes ?? 0;
    out.disabled = !zoomed;
    path.hidden = !chosen;
    if (chosen) {
      path.replaceChildren(
        element("p", "", `${exact_bytes(chosen.bytes)} in ${counted(chosen.n_blocks, "block")}, ${percent(all ? chosen.bytes / all : 0)} of all`),
        element("ol", "", null, path_of(chosen).map(of => element("li", "", null, [element("bdi", "", plain(of.name || "??", WHOLE)), " ", element("bdi", "quiet", of.filename ? plain(file_line(of.filename, of.line), WHOLE) : "")]))),
      );
    }
    surface.request();
  }

  /** @param {Branch} branch @param {number} width */
  function place(branch, width) {
    const base = zoomed ? zoomed.from : 0;
    const all = Math.max(1, zoomed ? zoomed.bytes : answer?.bytes ?? 0);
    return [(branch.from - base) / all * width, branch.bytes / all * width];
  }

  /** @param {Pen} context @param {number} width @param {number} height */
  function paint(context, width, height) {
    if (!answer) return;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const look = {surface: token("--rest"), text: token("--text"), accent: token("--accent"), ground: token("--ground")};
    const around = new Set(zoomed ? path_of(zoomed) : []);
    box(context, null, 0, width, -top, `all: ${bytes(answer.bytes)}`, look);
    for (let index = 0; index < tree.length; index += 1) {
      const branch = tree[index];
      const is_around = around.has(branch) && branch !== zoomed;
      if (zoomed && !is_around && (index < zoomed.index || index >= zoomed.end)) {
        index = branch.end - 1;
        continue;
      }
      let [x, across] = is_around ? [0, width] : place(branch, width);
      const y = (branch.depth + 1) * ROW - top;
      // Nothing below a branch that cannot be seen can be seen.
      if (x > width || x + across < 0 || across < 0.4 || y > height) {
        index = branch.end - 1;
        continue;
      }
      [x, across] = [Math.max(0, x), Math.min(width, x + across) - Math.max(0, x)];
      if (y > -ROW) box(context, branch, x, across, y, `${frame(branch)}  ${bytes(branch.bytes)}`, look);
    }
  }

  /**
   * @param {Pen} context @param {Branch | null} branch @param {number} x @param {number} across @param {number} y @param {string} text
   * @param {Record<"surface" | "text" | "accent" | "ground", string>} look
   */
  function box(context, branch, x, across, y, text, look) {
    const group = branch ? hash(branch.filename || branch.name || "") : 0;
    const is_faint = app.state.search && !branch?.is_match && !branch?.is_below;
    context.globalAlpha = is_faint ? 0.25 : 1;
    const is_grey = !branch || branch.folds !== undefined;
    context.fillStyle = is_grey ? look.surface : css("function", group);
    context.fillRect(x, y, Math.max(0.5, across - (across > 3 ? 1 : 0)), ROW - 1);
    context.globalAlpha = 1;
    context.fillStyle = is_faint || is_grey ? look.text : text_on("function", group);
    if (across > 24) label(context, text, x + 4, y + ROW / 2, across - 8);
    if (!branch || (branch !== chosen && !branch.is_match)) return;
    context.strokeStyle = branch === chosen ? look.accent : look.text;
    context.lineWidth = branch === chosen ? 3 : 1.5;
    context.strokeRect(x + 1, y + 1, Math.max(1, across - 3), ROW - 3);
  }

  /** @param {MouseEvent} event */
  function hit(event) {
    const area = scroller.getBoundingClientRect();
    const x = event.clientX - area.left;
    const depth = Math.floor((event.clientY - area.top + top) / ROW) - 1;
    if (!answer || depth < 0) return null;
    if (zoomed && depth < zoomed.depth) return path_of(zoomed)[depth];
    const all = zoomed ? tree.slice(zoomed.index, zoomed.end) : tree;
    return all.find(of => {
      if (of.depth !== depth) return false;
      const [left, across] = place(of, surface.width);
      return x >= left && x < left + across;
    }) ?? null;
  }

  /** @param {Branch | null} branch */
  function choose(branch) {
    if (!branch) return;
    chosen = branch;
    const y = (branch.depth + 1) * ROW;
    if (y < scroller.scrollTop + ROW) scroller.scrollTop = y - ROW;
    else if (y + ROW > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = y + ROW - scroller.clientHeight;
    app.announce(plain(`${frame(branch)}: ${bytes(branch.bytes)}`));
    describe();
  }

  /** @param {Branch | null} branch */
  function zoom(branch) {
    zoomed = branch;
    describe();
  }

  scroller.addEventListener("scroll", () => {
    top = scroller.scrollTop;
    surface.now();
  });
  scroller.addEventListener("pointermove", event => {
    const branch = hit(event);
    const area = scroller.getBoundingClientRect();
    if (!branch) tip.hide();
    else tip.text(`${bytes(branch.bytes)} in ${counted(branch.n_blocks, "block")}`, plain(frame(branch)), event.clientX - area.left, event.clientY - area.top);
  });
  scroller.addEventListener("pointerleave", () => tip.hide());
  scroller.addEventListener("click", event => {
    const branch = hit(event);
    if (branch) follow(branch);
  });
  scroller.addEventListener("keydown", event => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key.startsWith("Arrow")) choose(neighbour(tree, chosen, event.key));
    else if (event.key === "Enter" && chosen) follow(chosen);
    else if ((event.key === "Escape" || event.key === "Backspace") && zoomed) zoom(zoomed.parent);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  // Opens calls that are folded, or zooms to one.
  /** @param {Branch} branch */
  function follow(branch) {
    if (branch.folds === undefined) {
      choose(branch);
      return zoom(branch);
    }
    open.add(branch.folds);
    grow();
    return search();
  }

  /** @param {Changed} changed */
  function update(changed) {
    if (["filters", "what", "file", "device"].some(key => changed.has(key))) load();
    else if (changed.has("cursor") && app.state.what === "live") load();
    else if (changed.has("interval") && app.state.what !== "live") load();
    else if (changed.has("search") && answer) {
      grow();
      search();
    }
    if (changed.has("theme")) surface.request();
  }

  function text() {
    return [summary.textContent, ...tree.map(of => `${"  ".repeat(of.depth)}${plain(frame(of))}  ${exact_bytes(of.bytes)}  ${counted(of.n_blocks, "block")}`)].join("\n");
  }

  return {element: whole, show: load, hide: () => { ask.stop(); tip.hide(); }, update, text, canvas: () => surface.canvas, svg: () => surface.svg()};
}

/** @param {string} text */
function hash(text) {
  let of = 7;
  for (let index = 0; index < Math.min(text.length, 300); index += 1) of = (Math.imul(of, 31) + text.charCodeAt(index)) >>> 0;
  return of;
}
