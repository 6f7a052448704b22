// The timeline as a drawing: cells of a picture merged into rectangles, and the curves as paths.

import {rgb, token} from "./colours.js";
import {bytes, number} from "./text.js";
import {label} from "./surface.js";

const EDGE = {left: 78, right: 10, bottom: 22};
const MOST_RECTANGLES = 24_000;
/** @type {[name: "reserved" | "active" | "allocated", ink: string][]} */
const CURVES = [["reserved", "--reserved"], ["active", "--active"], ["allocated", "--allocated"]];

/**
 * Returns rectangles {value, from, to, low, high} of the picture's cells, in columns and rows: runs of a column, joined with the same
 * run of the columns before. Takes every n-th column, so that there are at most `most`.
 * @param {Picture} picture
 */
export function rectangles(picture, most = MOST_RECTANGLES) {
  for (let step = 1; ; step *= 2) {
    const found = merged(picture, step, most);
    if (found || step >= picture.n_columns) return found ?? [];
  }
}

// Null if there are more than `most`.
/** @param {Raster} of @param {number} step @param {number} most */
function merged({raster, n_columns, n_rows}, step, most) {
  const done = [];
  let open = new Map();
  for (let column = 0; column < n_columns; column += step) {
    const next = new Map();
    const to = Math.min(column + step, n_columns);
    for (let row = 0; row < n_rows;) {
      const value = raster[column * n_rows + row];
      let high = row + 1;
      while (high < n_rows && raster[column * n_rows + high] === value) high += 1;
      if (value) {
        const key = (value * 2048 + row) * 2048 + high;
        const before = open.get(key);
        if (before) before.to = to;
        else if (done.length >= most) return null;
        else done.push({value, from: column, to, low: row, high});
        next.set(key, before ?? done.at(-1));
      }
      row = high;
    }
    open = next;
  }
  return done;
}

/**
 * Draws a picture, cut to a view {from, to, low, high, is_events}, on a context of a size, below `top`.
 * @param {Pen} context @param {Picture} picture @param {Extent & {is_events: boolean}} view @param {Colouring} kind
 * @param {Size & {top: number}} size
 */
export function draw(context, picture, view, kind, {top, width, height}) {
  const box = {x: EDGE.left, y: top, width: width - EDGE.left - EDGE.right, height: height - top - EDGE.bottom};
  /** @param {number} place */
  const x = place => box.x + (place - view.from) / (view.to - view.from) * box.width;
  /** @param {number} count */
  const y = count => box.y + box.height * (1 - (count - view.low) / (view.high - view.low));
  /** @param {number} index */
  const column = index => x(picture.from + index / picture.n_columns * (picture.to - picture.from));
  /** @param {number} index */
  const row = index => y(picture.low + index / picture.n_rows * (picture.high - picture.low));
  context.save();
  context.beginPath();
  context.rect(box.x, box.y, box.width, box.height);
  context.clip();
  const rest = token("--rest");
  for (const {value, from, to, low, high} of rectangles(picture)) {
    const [left, right, upper, lower] = [column(from), column(to), row(high), row(low)];
    if (right < box.x || left > box.x + box.width || lower < box.y || upper > box.y + box.height) continue;
    context.fillStyle = value === 1 ? rest : shade(rgb(kind, picture.groups[value - 2]), picture.lives[value - 2]);
    context.fillRect(left, upper, right - left, lower - upper);
  }
  context.lineWidth = 1.5;
  for (const [name, ink] of CURVES) {
    context.strokeStyle = token(ink);
    context.beginPath();
    trace(context, picture[`${name}_max`], column, y);
    context.stroke();
  }
  context.restore();
  axes(context, box, view, x, y);
}

// Neighbours of one group stay apart, as in the picture on the screen.
/** @param {number[]} of @param {number} life */
function shade([red, green, blue], life) {
  const part = 1 - 0.06 * (life % 3);
  return `rgb(${Math.round(red * part)}, ${Math.round(green * part)}, ${Math.round(blue * part)})`;
}

/** @param {Pen} context @param {Float32Array} values @param {(index: number) => number} column @param {(count: number) => number} y */
function trace(context, values, column, y) {
  let before = null;
  for (let index = 0; index < values.length; index += 1) {
    const at = values[index];
    if (at === before && index < values.length - 1) continue;
    if (before === null) context.moveTo(column(index), y(at));
    else {
      context.lineTo(column(index), y(before));
      if (at !== before) context.lineTo(column(index), y(at));
    }
    before = at;
  }
  if (before !== null) context.lineTo(column(values.length), y(before));
}

/**
 * @param {Pen} context @param {PlotBox} box @param {Extent & {is_events: boolean}} view
 * @param {(place: number) => number} x @param {(count: number) => number} y
 */
function axes(context, box, view, x, y) {
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = token("--quiet");
  for (let part = 0; part <= 4; part += 1) {
    const count = view.low + (view.high - view.low) * part / 4;
    context.textAlign = "right";
    context.textBaseline = "middle";
    label(context, bytes(count), box.x - 6, Math.max(box.y + 6, y(count)), box.x - 4);
    const place = view.from + (view.to - view.from) * part / 4;
    context.textAlign = part === 4 ? "right" : part ? "center" : "left";
    context.textBaseline = "top";
    label(context, view.is_events ? number(Math.round(place)) : `${number(Math.round(place))} µs`, x(place), box.y + box.height + 5, 120);
  }
  context.textAlign = "left";
}
