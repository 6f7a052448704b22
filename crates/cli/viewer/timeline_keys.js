// The keys of the timeline.

import {clamp} from "./app.js";
import {blocks_of, column_at} from "./picture.js";

/**
 * Returns the keys: [[keys, text, action], …].
 * @param {App} app @param {Lens} lens @param {Tiles} tiles @returns {Key[]}
 */
export function keys_of(app, lens, tiles) {
  const {pan, pan_bytes, zoom, zoom_bytes, move, view, geometry} = lens;
  return [
    [["ArrowLeft", "ArrowRight"], "Pan", key => pan(key === "ArrowLeft" ? -0.1 : 0.1)],
    [["Shift+ArrowLeft", "Shift+ArrowRight"], "Step one event", key => app.goto(app.moment() + (key.endsWith("Left") ? -1 : 1))],
    [["ArrowUp", "ArrowDown"], "Pan vertically", key => pan_bytes(key === "ArrowUp" ? 0.1 : -0.1)],
    [["Shift+ArrowUp", "Shift+ArrowDown"], "Zoom vertically", key => zoom_bytes(key.endsWith("Up") ? 0.8 : 1.25, 0)],
    [["+", "=", "-"], "Zoom around the cursor", key => zoom(key === "-" ? 1.4 : 1 / 1.4, middle())],
    [["Home", "End"], "Go to the start or the end", key => {
      const width = view().to - view().from;
      if (key === "Home") move(0, width);
      else move(tiles.span() - width, tiles.span());
    }],
    [["0"], "Show everything", () => app.set({range: null, vertical: null})],
    [["Enter"], "Pin the largest block at the cursor", () => pin(0)],
    [["PageUp", "PageDown"], "Pin the next block up or down at the cursor", key => pin(key === "PageUp" ? 1 : -1)],
    [["f"], "Show the lifetime of the pinned block", async () => {
      if (app.state.life !== null) app.show_life(await app.source.block({...app.query(), life: app.state.life}));
    }],
    [["b"], "Mark the visible interval for the Stacks view, or clear the marked interval", () => {
      const {view: {from, to}, moment_at} = geometry();
      app.set({interval: app.state.interval ? null : [moment_at(from), moment_at(to)]});
    }],
  ];

  // Where the cursor is in the view, as a fraction; the middle if it is not there.
  function middle() {
    if (app.state.cursor === null) return 0.5;
    const {view: {from, to}, place} = geometry();
    const at = (place(app.state.cursor) - from) / (to - from);
    return at >= 0 && at <= 1 ? at : 0.5;
  }

  // Pins the largest block at the cursor, or the one above or below the pinned one.
  /** @param {number} step */
  async function pin(step) {
    const moment = app.moment();
    const spot = geometry().place(moment);
    const picture = tiles.drawn({...view(), from: spot, to: spot}).at(-1);
    const found = picture ? blocks_of(picture, column_at(picture, spot)) : [];
    const index = found.findIndex(({life}) => life === app.state.life);
    const chosen = step === 0 || index < 0 ? largest(found) ?? await largest_of_state(moment) : found[clamp(index + step, 0, found.length - 1)];
    if (chosen) app.set({cursor: moment, life: chosen.life});
    else app.announce("There is no block at the cursor.");
  }

  // All blocks may be too small for the picture; the server has them.
  /** @param {number} moment */
  async function largest_of_state(moment) {
    const {segments} = await app.source.state({...app.query(), moment});
    return largest(segments.flatMap(({blocks}) => blocks.map(([life, , bytes]) => ({life, bytes}))));
  }
}

/** @param {{life: number, bytes: number}[]} blocks */
function largest(blocks) {
  return blocks.reduce((/** @type {{life: number, bytes: number} | null} */ best, of) => (best && best.bytes >= of.bytes ? best : of), null);
}
