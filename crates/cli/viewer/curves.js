// The curves over the blocks: allocated, active and reserved bytes, the device's limit, and what other views add.

import {bytes} from "./text.js";
import {column_at} from "./picture.js";

/** @type {[kind: "reserved" | "active" | "allocated", name: string][]} */
const KINDS = [["reserved", "Reserved"], ["active", "Active"], ["allocated", "Allocated"]];

/**
 * Paints the curves of the finest picture of a frame: {context, box, view, x, y, inks}.
 * @param {Painting} frame @param {Picture} picture
 */
export function paint(frame, picture) {
  const {context, box, inks} = frame;
  context.save();
  context.beginPath();
  context.rect(box.left, box.top, box.width, box.height);
  context.clip();
  for (const [kind] of KINDS) {
    context.fillStyle = inks[kind];
    // What a curve does within a column of pixels must not hide the blocks.
    context.globalAlpha = 0.2;
    trace(frame, picture, picture[`${kind}_min`], picture[`${kind}_max`]);
    context.globalAlpha = 1;
    trace(frame, picture, picture[`${kind}_max`], picture[`${kind}_max`]);
  }
  context.restore();
}

// Fills a column of pixels from the least of some bytes to the most of others, joined with the column before.
/** @param {Painting} of @param {Picture} picture @param {Float32Array} least @param {Float32Array} most */
function trace({context, box, view, y}, picture, least, most) {
  const thick = 1.5;
  const scale = (view.to - view.from) / box.width;
  /** @type {[high: number, low: number] | null} */
  let before = null;
  let [run_x, run_high, run_low] = [0, 0, 0];
  context.beginPath();
  /** @param {number} end */
  const flush = end => { if (end > run_x) context.rect(box.left + run_x, run_high, end - run_x, run_low - run_high); };
  for (let x = 0; x < box.width; x++) {
    const place = view.from + x * scale;
    if (place < picture.from || place >= picture.to) continue;
    const first = column_at(picture, place);
    const last = Math.max(first, column_at(picture, place + scale * 0.999));
    let [low, high] = [Infinity, -Infinity];
    for (let column = first; column <= last; column++) {
      if (least[column] < low) low = least[column];
      if (most[column] > high) high = most[column];
    }
    if (least === most) low = high;
    let top = Math.round(y(high) * 2) / 2 - thick / 2;
    let bottom = Math.round(y(low) * 2) / 2 + thick / 2;
    const [own_top, own_bottom] = [top, bottom];
    if (before) {
      const [high, low] = before;
      if (top > low) top = low - thick;
      if (bottom < high) bottom = high + thick;
    }
    before = [own_top, own_bottom];
    if (top === run_high && bottom === run_low) continue;
    flush(x);
    [run_x, run_high, run_low] = [x, top, bottom];
  }
  flush(box.width);
  context.fill();
}

/**
 * Paints a curve of [[moment, bytes], …] as steps.
 * @param {Painting} of @param {Point[]} points @param {(moment: number) => number} place @param {string} ink
 */
export function paint_points({context, box, view, x, y}, points, place, ink) {
  context.save();
  context.beginPath();
  context.rect(box.left, box.top, box.width, box.height);
  context.clip();
  context.strokeStyle = ink;
  context.lineWidth = 1.5;
  context.setLineDash([5, 3]);
  context.beginPath();
  let last = null;
  for (const [moment, count] of points) {
    const of = place(moment);
    if (of < view.from) { last = count; continue; }
    if (last === null) context.moveTo(x(of), y(count));
    else {
      context.lineTo(Math.max(x(of), box.left), y(last));
      context.lineTo(x(of), y(count));
    }
    last = count;
    if (of > view.to) break;
  }
  context.stroke();
  context.restore();
}

/**
 * Paints the limit of the device, as a line or as a note that it is above the view.
 * @param {Painting} of @param {number | null} limit
 */
export function paint_limit({context, box, view, y, inks}, limit) {
  if (limit === null || limit === undefined || limit < view.low) return;
  context.fillStyle = inks.limit;
  context.textAlign = "right";
  const is_above = limit > view.high;
  const at = is_above ? box.top : Math.round(y(limit));
  if (!is_above) for (let left = box.left; left < box.left + box.width; left += 10) context.fillRect(left, at, 6, 1.5);
  context.textBaseline = is_above || at < box.top + 16 ? "top" : "bottom";
  context.fillText(is_above ? `limit ${bytes(limit)} ↑` : `limit ${bytes(limit)}`, box.left + box.width - 6, at + (is_above ? 3 : 0));
}

/**
 * Paints the names of the curves in their colours.
 * @param {Painting} of @param {string[]} more
 */
export function paint_names({context, box, inks}, more) {
  context.textAlign = "left";
  context.textBaseline = "top";
  let left = box.left + 8;
  const names = [...KINDS.map(([kind, name]) => [name, inks[kind]]), ...more.map(name => [name, inks.whatif])];
  const width = names.reduce((sum, [name]) => sum + context.measureText(name).width + 26, 6);
  context.globalAlpha = 0.82;
  context.fillStyle = inks.ground;
  context.fillRect(box.left + 3, box.top + 3, width, 18);
  context.globalAlpha = 1;
  for (const [name, ink] of names) {
    context.fillStyle = ink;
    context.fillRect(left, box.top + 11, 12, 2);
    context.fillStyle = inks.text;
    context.fillText(name, left + 16, box.top + 6);
    left += context.measureText(name).width + 26;
  }
}

/**
 * Paints the coarse picture of a file that is read: points of [fraction of the file, active, reserved].
 * @param {Pick<Painting, "context" | "box" | "inks">} of @param {[part: number, active: number, reserved: number][]} points @param {number} read
 */
export function paint_coarse({context, box, inks}, points, read) {
  const least = Math.min(0, ...points.map(([, active]) => active));
  const most = Math.max(1, ...points.map(([, active, reserved]) => Math.max(active, reserved)));
  /** @param {number} count */
  const y = count => box.top + box.height * (1 - (count - least) / (most - least) * 0.95);
  /** @param {number} fraction */
  const x = fraction => box.left + box.width * Math.min(fraction, 1);
  for (const [index, ink] of /** @type {const} */ ([[1, inks.rest], [2, inks.reserved]])) {
    context.beginPath();
    context.moveTo(x(0), y(0));
    for (const point of points) context.lineTo(x(point[0]), y(point[index]));
    if (index === 1) {
      context.lineTo(x(points.at(-1)?.[0] ?? 0), y(0));
      context.fillStyle = ink;
      context.fill();
    } else {
      context.strokeStyle = ink;
      context.lineWidth = 1.5;
      context.stroke();
    }
  }
  context.fillStyle = inks.grid;
  context.fillRect(x(read), box.top, box.left + box.width - x(read), box.height);
}
