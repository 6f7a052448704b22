// What the timeline paints: below, the blocks with their curves; above, the cursor, the interval and the outlines of blocks.

import {clamp} from "./app.js";
import {token} from "./colours.js";
import {bytes} from "./text.js";
import * as curves from "./curves.js";
import * as ruler from "./ruler.js";
import {outline} from "./picture.js";

const INKS = [
  "ground", "surface", "raised", "text", "quiet", "edge", "strong-edge", "grid", "rest", "chosen", "accent", "allocated", "active",
  "reserved", "limit", "cursor", "whatif", "marker",
];

/** Returns the colours of the page and its font for a canvas. */
export function inks() {
  const found = /** @type {Inks} */ ({font: getComputedStyle(document.body).fontFamily});
  for (const name of INKS) found[/** @type {keyof Inks} */ (name.replace("strong-edge", "strong"))] = token(`--${name}`);
  return found;
}

/**
 * Returns the context of a canvas, which is cleared and has a size in pixels of CSS.
 * @param {HTMLCanvasElement} canvas @param {Inks} inks @param {Size} size
 */
export function prepare(canvas, inks, size) {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [Math.round(size.width * ratio), Math.round(size.height * ratio)];
  if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = `11px ${inks.font}`;
  return context;
}

/**
 * Paints the blocks, the curves and the ruler. `of` is a geometry of the lens with a context and inks.
 * @param {Painting} of @param {App} app
 */
export function paint_base(of, app) {
  const device = app.shown();
  ruler.paint_bytes(of);
  for (const picture of of.drawn) paint_picture(of, picture);
  if (of.picture) curves.paint(of, of.picture);
  for (const points of app.curves.values()) curves.paint_points(of, points, of.place, of.inks.whatif);
  curves.paint_limit(of, device.limit_bytes);
  ruler.paint_axis(of, app.state.axis === "time");
  ruler.paint_scopes(of, device.scopes, of.place);
  // Without events there is no moment to mark.
  if (device.n_events > 0) ruler.paint_markers(of, device.markers, of.place);
  curves.paint_names(of, [...app.curves.keys()]);
}

/**
 * Paints what changes with the pointer: the interval, the pinned and the hovered block, and the cursor.
 * @param {Painting} of @param {App} app @param {{hovered: number | null, brushed: number[] | null}} pointer
 */
export function paint_surface(of, app, {hovered, brushed}) {
  const {context, box, picture} = of;
  context.save();
  context.beginPath();
  context.rect(box.left, 0, box.width, box.top + box.height);
  context.clip();
  const {interval, life, cursor, axis} = app.state;
  const ends = brushed ?? interval?.map(moment => of.place(moment) - (axis === "events" ? 0.5 : 0));
  if (ends) paint_interval(of, ends);
  if (picture && life !== null) paint_life(of, picture, life, 2);
  if (picture && hovered !== null && hovered !== life) paint_life(of, picture, hovered, 1);
  if (cursor !== null) paint_cursor(of, app.totals?.moment === cursor ? app.totals : null, Math.round(of.x(of.place(cursor))));
  context.restore();
}

// Only the part of the bitmap that is seen is drawn.
/** @param {Painting} of @param {Tile} picture */
function paint_picture({context, view, x, y}, picture) {
  const [from, to] = [Math.max(view.from, picture.from), Math.min(view.to, picture.to)];
  const [low, high] = [Math.max(view.low, picture.low), Math.min(view.high, picture.high)];
  if (from >= to || low >= high) return;
  const across = picture.n_columns / (picture.to - picture.from);
  const up = picture.n_rows / (picture.high - picture.low);
  context.imageSmoothingEnabled = false;
  context.drawImage(
    picture.bitmap, (from - picture.from) * across, (picture.high - high) * up, (to - from) * across, (high - low) * up,
    x(from), y(high), x(to) - x(from), y(low) - y(high),
  );
}

/** @param {Painting} of @param {number[]} ends */
function paint_interval({context, box, x, inks}, [from, to]) {
  context.fillStyle = inks.accent;
  context.globalAlpha = 0.16;
  context.fillRect(x(from), box.top, x(to) - x(from), box.height);
  context.globalAlpha = 1;
  context.fillRect(x(from), box.top, 1, box.height);
  context.fillRect(x(to) - 1, box.top, 1, box.height);
}

// Outlines a block in the columns of the picture that are seen, each run of columns on its own.
/** @param {Painting} of @param {Picture} picture @param {number} life @param {number} width */
function paint_life({context, view, x, y, inks}, picture, life, width) {
  const found = outline(picture, life);
  if (!found) return;
  const across = (picture.to - picture.from) / picture.n_columns;
  const up = (picture.high - picture.low) / picture.n_rows;
  const begin = clamp(Math.floor((view.from - picture.from) / across) - found.first, 0, found.lows.length);
  const end = clamp(Math.ceil((view.to - picture.from) / across) - found.first + 1, begin, found.lows.length);
  context.beginPath();
  /** @param {number} index */
  const left = index => x(picture.from + (found.first + index) * across);
  /** @param {number[]} rows @param {number} index */
  const side = (rows, index) => y(picture.low + rows[index] * up);
  for (let start = begin; start < end;) {
    if (found.lows[start] < 0) { start += 1; continue; }
    let stop = start;
    while (stop < end && found.lows[stop] >= 0) stop += 1;
    context.moveTo(left(start), side(found.highs, start));
    for (let index = start; index < stop; index++) {
      if (index > start && found.highs[index] !== found.highs[index - 1]) context.lineTo(left(index), side(found.highs, index));
      if (index + 1 === stop || found.highs[index + 1] !== found.highs[index]) context.lineTo(left(index + 1), side(found.highs, index));
    }
    for (let index = stop - 1; index >= start; index--) {
      if (index + 1 === stop || found.lows[index + 1] !== found.lows[index]) context.lineTo(left(index + 1), side(found.lows, index));
      if (index === start || found.lows[index - 1] !== found.lows[index]) context.lineTo(left(index), side(found.lows, index));
    }
    context.closePath();
    start = stop;
  }
  context.lineJoin = "round";
  context.strokeStyle = inks.ground;
  context.lineWidth = width + 2;
  context.stroke();
  context.strokeStyle = inks.text;
  context.lineWidth = width;
  context.stroke();
}

/** @param {Painting} of @param {Totals | null} totals @param {number} left */
function paint_cursor({context, box, inks}, totals, left) {
  context.fillStyle = inks.cursor;
  context.fillRect(left - 0.75, 0, 1.5, box.top + box.height);
  if (!totals) return;
  const text = `${totals.is_approximate ? "about " : ""}${bytes(totals.active_bytes)} active, ${bytes(totals.reserved_bytes)} reserved`;
  const width = context.measureText(text).width + 10;
  const from = left + width + 6 > box.left + box.width ? left - width - 4 : left + 4;
  const top = box.top + box.height - 22;
  context.fillStyle = inks.cursor;
  context.fillRect(from, top, width, 17);
  context.fillStyle = inks.ground;
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.fillText(text, from + 5, top + 9);
}
