// The state of the allocator at a moment: every segment to scale, with its blocks, holes and rounding.

import {bytes, counted, element, exact_bytes, number, percent, plain, reason_of} from "./text.js";
import {create as create_surface} from "./surface.js";
import {create as create_tip} from "./tip.js";
import {button} from "./controls.js";
import {create as create_latest_request} from "./latest_request.js";
import {blocks_of, find, rows_of} from "./segments.js";
import {ROW, at, labels_of, paint} from "./segment_rows.js";
import {create as create_steps} from "./steps.js";

/** @type {Record<string, [across: number, down: number]>} */
const STEPS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};

/**
 * Creates the view. Its element carries the totals of what it shows as data attributes.
 * @param {App} app @returns {View}
 */
export function create(app) {
  const ask = create_latest_request();
  /** @type {Segments} */
  const view = {rows: [], top: 0, is_fitted: false, colour: app.state.colour, life: null, chosen: null};
  /** @type {AllocatorState | null} */
  let answer = null;
  const steps = create_steps(app);
  const summary = element("p", "quiet summary");
  const fit = button("Fit each row", "Draw every segment at full width instead of to a common scale", () => {
    view.is_fitted = !view.is_fitted;
    fit.setAttribute("aria-pressed", String(view.is_fitted));
    surface.request();
  });
  fit.setAttribute("aria-pressed", "false");
  const surface = create_surface("segments-surface", (context, width, height) => paint(context, width, height, view));
  const spacer = element("div", "spacer");
  const scroller = element("div", "scroll segments-scroll", null, [surface.element, spacer]);
  scroller.tabIndex = 0;
  scroller.setAttribute("role", "application");
  scroller.setAttribute("aria-label", "Segments. Arrow keys move between blocks, Enter pins a block.");
  const room = element("div", "segments-room", null, [scroller]);
  const tip = create_tip(app, room);
  const top = element("div", "bar", null, [steps.element, fit]);
  const whole = element("div", "allocator", null, [top, summary, room]);

  async function show() {
    steps.update();
    await load();
  }

  async function load() {
    const {colour} = app.state;
    let got;
    try {
      got = await ask(app.source.state, {...app.query(), moment: app.moment(), colour});
    } catch (error) {
      summary.textContent = `Cannot show the state: ${plain(reason_of(error))}`;
      return;
    }
    if (!got) return;
    answer = got;
    view.rows = rows_of(got);
    view.colour = colour;
    view.life = app.state.life;
    spacer.style.height = `${view.rows.length * ROW}px`;
    describe(got);
    surface.request();
  }

  /** @param {AllocatorState} got */
  function describe(got) {
    const {totals, segments} = got;
    const blocks = segments.flatMap(segment => segment.blocks);
    const size = blocks.reduce((sum, block) => sum + block[2], 0);
    const waste = blocks.reduce((sum, block) => sum + block[2] - block[3], 0);
    const pending = blocks.filter(block => block[4]);
    const mapped = segments.reduce((sum, segment) => sum + segment.bytes, 0);
    Object.assign(whole.dataset, {
      segments: segments.length, blocks: blocks.length, moment: got.moment, allocated: totals.allocated_bytes,
      active: totals.active_bytes, reserved: totals.reserved_bytes, drawnBytes: size, drawnReserved: mapped, leftOut: got.n_left_out,
    });
    const parts = [
      `${counted(segments.length, "segment")}, ${bytes(mapped)}`, `${counted(blocks.length, "block")}, ${bytes(size)} (${percent(mapped ? size / mapped : 0)})`,
      `rounding ${bytes(waste)}`, `free ${bytes(mapped - size)}`,
    ];
    if (pending.length) parts.push(`pending ${bytes(pending.reduce((sum, block) => sum + block[2], 0))} in ${counted(pending.length, "block")}`);
    if (got.n_left_out) parts.push(`not shown: ${counted(got.n_left_out, "segment")}, ${bytes(got.left_out_bytes)}`);
    summary.textContent = parts.join("; ");
  }

  /** @param {Changed} changed */
  function update(changed) {
    steps.update();
    if (["cursor", "colour", "file", "device"].some(key => changed.has(key))) load();
    else if (changed.has("life")) {
      view.life = app.state.life;
      if (view.life !== null && view.life !== view.chosen) reveal(view.life);
    }
    if (changed.has("life") || changed.has("theme")) surface.request();
  }

  /** @param {number} life */
  function reveal(life) {
    const found = find(view.rows, life);
    if (!found) return null;
    const y = found[0] * ROW;
    if (y < scroller.scrollTop || y + ROW > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = y - scroller.clientHeight / 2;
    return found;
  }

  // The block left or right of the chosen one, or the nearest one in the next row that has blocks.
  /** @param {number} across @param {number} down */
  function move(across, down) {
    const found = find(view.rows, view.chosen ?? view.life ?? -1);
    if (!found) {
      const first = view.rows.find(row => row.kind === "segment" && row.n_blocks > 0);
      return choose(first && blocks_of(first)[0][1]);
    }
    const [index, part, block] = found;
    const place = part.offset + block[1];
    if (across) {
      const list = blocks_of(view.rows[index]);
      return choose(list[list.findIndex(([, of]) => of === block) + across]?.[1]);
    }
    for (let row = index + down; view.rows[row]; row += down) {
      const list = blocks_of(view.rows[row]);
      if (list.length) return choose(list.reduce((best, one) => (Math.abs(one[0] - place) < Math.abs(best[0] - place) ? one : best))[1]);
    }
    return undefined;
  }

  /** @param {SegmentBlock | undefined} block */
  function choose(block) {
    if (!block) return;
    view.chosen = block[0];
    const [index, , ] = reveal(block[0]) ?? [0];
    tip.block({life: block[0], bytes: block[2]}, labels_of(surface.width), index * ROW - scroller.scrollTop + ROW);
    app.announce(`Block of ${bytes(block[2])}, ${bytes(block[3])} requested${block[4] ? ", freed but waiting for a stream" : ""}`);
    surface.request();
  }

  scroller.addEventListener("scroll", () => {
    view.top = scroller.scrollTop;
    surface.now();
  });
  scroller.addEventListener("pointermove", event => {
    const [x, y] = place_of(event);
    const hit = at(view, surface.width, x, y);
    scroller.classList.toggle("over-block", Boolean(hit?.block));
    if (!hit) tip.hide();
    else if (hit.block) tip.block({life: hit.block[0], bytes: hit.block[2]}, x, y);
    else tip.text(...hit.lines, x, y);
  });
  scroller.addEventListener("pointerleave", () => tip.hide());
  scroller.addEventListener("click", event => {
    const block = at(view, surface.width, ...place_of(event))?.block;
    if (!block) return;
    view.chosen = block[0];
    app.pin(block[0]);
    surface.request();
  });
  scroller.addEventListener("keydown", event => {
    const step = STEPS[event.key];
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (step) move(...step);
    else if (event.key === "Enter" && view.chosen !== null) app.pin(view.chosen);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  /** @param {MouseEvent} event @returns {[x: number, y: number]} */
  function place_of(event) {
    const box = scroller.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  function text() {
    if (!answer) return "";
    const lines = [summary.textContent];
    for (const row of view.rows) {
      if (row.kind === "pool") lines.push(plain(row.text));
      else lines.push(`  0x${row.start.toString(16)}  ${row.text}  ${row.detail}`, ...blocks_of(row).map(([offset, of]) => `    +${number(offset)}  ${exact_bytes(of[2])}  requested ${number(of[3])}  block ${of[0]}${of[4] ? "  pending" : ""}`));
    }
    return lines.join("\n");
  }

  return {element: whole, show, update, hide: () => { ask.stop(); tip.hide(); }, text, canvas: () => surface.canvas, svg: () => surface.svg()};
}
