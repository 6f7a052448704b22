// Paints the rows of segments, and finds what is at a point.

import {css, text_on, token} from "./colours.js";
import {bytes, plain} from "./text.js";
import {hatch, label} from "./surface.js";
import {blocks_of} from "./segments.js";

/** @typedef {Segments & {look: Record<string, string>, x: number, scale: number}} SegmentLook */

/** Height of a row in pixels. */
export const ROW = 24;
/** Width of the column of labels in pixels, in a view of a width. @param {number} width */
export const labels_of = width => (width < 600 ? 190 : 320);
const PAD = 10;
const FONT = "12px system-ui, sans-serif";

/**
 * Returns the part of the row that is used for its blocks, as {x, scale} with scale in pixels for each byte.
 * @param {SegmentRow} row @param {number} width @param {number} widest @param {boolean} is_fitted
 */
export function scale_of(row, width, widest, is_fitted) {
  const x = labels_of(width);
  const room = Math.max(20, width - x - PAD);
  return {x, scale: room / Math.max(1, is_fitted ? row.bytes : widest)};
}

/**
 * Returns the number of bytes of the longest row.
 * @param {(PoolRow | SegmentRow)[]} rows
 */
export function widest_of(rows) {
  return rows.reduce((most, row) => Math.max(most, row.kind === "segment" ? row.bytes : 0), 1);
}

/**
 * Paints the rows that are visible from `top` pixels. `view` is {rows, top, is_fitted, colour, life, chosen}.
 * @param {Pen} context @param {number} width @param {number} height @param {Segments} view
 */
export function paint(context, width, height, view) {
  const widest = widest_of(view.rows);
  const look = tokens();
  context.font = FONT;
  context.textBaseline = "middle";
  const first = Math.max(0, Math.floor(view.top / ROW));
  const last = Math.min(view.rows.length, Math.ceil((view.top + height) / ROW));
  for (let index = first; index < last; index += 1) {
    const row = view.rows[index];
    const y = index * ROW - view.top;
    if (row.kind === "pool") paint_pool(context, row, y, width, look);
    else paint_segment(context, row, y, {...view, ...scale_of(row, width, widest, view.is_fitted), look});
  }
}

function tokens() {
  /** @type {Record<string, string>} */
  const of = {};
  for (const name of ["surface", "text", "quiet", "edge", "strong-edge", "warning", "rest", "accent", "ground"]) of[name] = token(`--${name}`);
  return of;
}

/** @param {Pen} context @param {PoolRow} row @param {number} y @param {number} width @param {Record<string, string>} look */
function paint_pool(context, row, y, width, look) {
  context.fillStyle = look.surface;
  context.fillRect(0, y, width, ROW);
  context.fillStyle = look.text;
  context.font = `600 ${FONT}`;
  label(context, row.text, 8, y + ROW / 2, width - 16);
  context.font = FONT;
}

/** @param {Pen} context @param {SegmentRow} row @param {number} y @param {SegmentLook} view */
function paint_segment(context, row, y, view) {
  const {look, x, scale} = view;
  context.fillStyle = look.text;
  const [first, second] = x < 300 ? [8, 84] : [16, 150];
  label(context, row.text, first, y + ROW / 2, second - first - 6);
  context.fillStyle = row.is_pinned ? look.warning : look.quiet;
  label(context, row.detail, second, y + ROW / 2, x - second - 6);
  const top = y + 3;
  const tall = ROW - 6;
  if (row.unmapped > 0) dashes(context, look["strong-edge"], x, x + row.bytes * scale, y + ROW / 2);
  for (const part of row.parts) {
    const left = x + part.offset * scale;
    const across = Math.max(1.5, part.bytes * scale);
    context.fillStyle = look.surface;
    context.fillRect(left, top, across, tall);
    for (const block of part.blocks) paint_block(context, block, left, top, tall, view);
    context.strokeStyle = look["strong-edge"];
    context.lineWidth = 1;
    context.strokeRect(left - 0.5, top - 0.5, across + 1, tall + 1);
  }
  for (const [offset, block] of blocks_of(row)) {
    if (block[0] !== view.life && block[0] !== view.chosen) continue;
    context.strokeStyle = look.accent;
    context.lineWidth = block[0] === view.life ? 3 : 1.5;
    context.strokeRect(x + offset * scale, top, Math.max(2, block[2] * scale), tall);
  }
}

/** @param {Pen} context @param {SegmentBlock} block @param {number} left @param {number} top @param {number} tall @param {SegmentLook} view */
function paint_block(context, [, offset, size, requested, is_pending, group], left, top, tall, view) {
  const x = left + offset * view.scale;
  const across = Math.max(size * view.scale, 0.6);
  const gap = across > 4 ? 1 : 0;
  const colour = css(view.colour, group);
  context.globalAlpha = is_pending ? 0.28 : 1;
  context.fillStyle = colour;
  context.fillRect(x, top, across - gap, tall);
  context.globalAlpha = 1;
  context.lineWidth = 1;
  if (is_pending && across > 2) {
    context.strokeStyle = colour;
    context.strokeRect(x + 0.5, top + 0.5, Math.max(1, across - gap - 1), tall - 1);
    hatch(context, x, top, across - gap, tall, 4);
  }
  const waste = (size - requested) * view.scale;
  if (waste > 1.5 && !is_pending) {
    const from = x + requested * view.scale;
    context.fillStyle = view.look.ground;
    context.globalAlpha = 0.55;
    context.fillRect(from, top, waste - gap, tall);
    context.globalAlpha = 1;
    context.strokeStyle = colour;
    hatch(context, from, top, waste - gap, tall, 4);
  }
  if (across > 60 && !is_pending) {
    context.fillStyle = text_on(view.colour, group);
    label(context, bytes(size), x + 5, top + tall / 2 + 0.5, Math.min(across, requested * view.scale) - 8);
  }
}

/** @param {Pen} context @param {string} colour @param {number} from @param {number} to @param {number} y */
function dashes(context, colour, from, to, y) {
  context.save();
  context.setLineDash([2, 3]);
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(from, y);
  context.lineTo(to, y);
  context.stroke();
  context.restore();
}

/**
 * Returns {block, lines} for a point: the block, the hole or the unmapped pages there; null outside of rows.
 * @param {Segments} view @param {number} width @param {number} x @param {number} y
 * @returns {{block: SegmentBlock, lines: null} | {block: null, lines: [string, string]} | null}
 */
export function at(view, width, x, y) {
  const row = view.rows[Math.floor((y + view.top) / ROW)];
  if (!row || row.kind === "pool") return null;
  const {x: left, scale} = scale_of(row, width, widest_of(view.rows), view.is_fitted);
  if (x < left) return {block: null, lines: about(row)};
  const offset = (x - left) / scale;
  if (offset > row.bytes + 2 / scale) return null;
  const near = nearest(row, offset, 1.5 / scale);
  if (near) return {block: near, lines: null};
  const part = row.parts.find(of => offset >= of.offset && offset < of.offset + of.bytes);
  if (!part) return {block: null, lines: ["Unmapped pages", "of an expandable range"]};
  const from = Math.max(0, ...part.blocks.filter(([, start]) => part.offset + start <= offset).map(([, start, size]) => start + size));
  const to = Math.min(part.bytes, ...part.blocks.filter(([, start]) => part.offset + start > offset).map(([, start]) => start));
  return {block: null, lines: [`Free: ${bytes(to - from)}`, `at 0x${(part.at + BigInt(from)).toString(16)}`]};
}

/** @param {SegmentRow} row @returns {[string, string]} */
function about(row) {
  const gap = row.parts.reduce((most, part) => Math.max(most, part.largest_gap_bytes), 0);
  return [`Segment 0x${row.start.toString(16)}: ${row.text}`, `${row.detail}, largest gap ${bytes(gap)}, pool ${plain(row.pool)}, stream ${row.stream}`];
}

// The block at an offset, or one that is too narrow to be hit and within reach.
/** @param {SegmentRow} row @param {number} offset @param {number} reach */
function nearest(row, offset, reach) {
  /** @type {SegmentBlock | null} */
  let best = null;
  let least = reach;
  for (const [start, block] of blocks_of(row)) {
    if (offset >= start && offset < start + block[2]) return block;
    const distance = Math.min(Math.abs(offset - start), Math.abs(offset - start - block[2]));
    if (distance < least && block[2] < 2 * reach) [best, least] = [block, distance];
  }
  return best;
}
