// A picture of blocks over time: decodes the server's binary form, paints it to a bitmap, and finds blocks in it.

import {rgb} from "./colours.js";

const MAGIC = 0x3150524d; // "MRP1"
export const REST = 1;
const FIRST_LIFE = 2;
// In the place of a life's number: the small blocks of a group, summed up.
const SUM = 0xffffffff;

/**
 * Returns the picture of a buffer. Cells of `raster` are 0 (nothing), REST, or the index in `lives` plus two.
 * @param {ArrayBuffer} buffer @returns {Picture}
 */
export function decode(buffer) {
  const head = new DataView(buffer);
  if (buffer.byteLength < 56 || head.getUint32(0, true) !== MAGIC) throw new Error("the picture has no MRP1 header");
  const [n_columns, n_rows, n_lives, flags, n_moments] = [4, 8, 12, 16, 20].map(at => head.getUint32(at, true));
  const [from, to, low, high] = [24, 32, 40, 48].map(at => head.getFloat64(at, true));
  let at = 56;
  /**
   * @template Of @param {{new(buffer: ArrayBuffer, at?: number, count?: number): Of, BYTES_PER_ELEMENT: number}} Kind
   * @param {number} count
   */
  const take = (Kind, count) => {
    const length = count * Kind.BYTES_PER_ELEMENT;
    if (at + length > buffer.byteLength) throw new Error("the picture is cut off");
    const is_aligned = at % Kind.BYTES_PER_ELEMENT === 0;
    const part = is_aligned ? new Kind(buffer, at, count) : new Kind(buffer.slice(at, at + length));
    at += length;
    return part;
  };
  const curve = () => take(Float32Array, n_columns);
  // In the order in which they are in the buffer.
  const parts = {
    moments: take(Uint32Array, n_columns),
    allocated_min: curve(), allocated_max: curve(), active_min: curve(), active_max: curve(), reserved_min: curve(), reserved_max: curve(),
    lives: take(Uint32Array, n_lives), groups: take(Uint32Array, n_lives), sizes: take(Float64Array, n_lives), matches: take(Uint8Array, n_lives),
  };
  at += (4 - (n_lives % 4)) % 4;
  const raster = take(Uint16Array, n_columns * n_rows);
  const is_complete = (flags & 1) === 1;
  return {n_columns, n_rows, n_lives, n_moments, is_complete, from, to, low, high, ...parts, raster, bytes: buffer.byteLength, outlines: new Map()};
}

/**
 * Returns the bitmap of a raster with its table of lives. Row 0 of the bitmap is the highest. It runs in painter.js.
 * @param {Raster} of @param {Look} look
 */
export function paint(of, {kind, rest, is_searched}) {
  const {n_columns, n_rows} = of;
  const canvas = new OffscreenCanvas(n_columns, n_rows);
  const context = /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext("2d", {willReadFrequently: true}));
  const image = context.createImageData(n_columns, n_rows);
  transpose(of.raster, new Uint32Array(image.data.buffer), n_columns, n_rows, table(of, kind, rest, is_searched));
  context.putImageData(image, 0, 0);
  return canvas.transferToImageBitmap();
}

// The colour of each cell's value as a pixel (little endian: alpha, blue, green, red).
/** @param {Raster} of @param {Colouring} kind @param {number[]} rest @param {boolean} is_searched */
function table({n_lives, lives, groups, matches}, kind, [red, green, blue], is_searched) {
  /** @param {number} red @param {number} green @param {number} blue */
  const pixel = (red, green, blue) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  const pixels = new Uint32Array(n_lives + FIRST_LIFE);
  pixels[REST] = pixel(red, green, blue);
  const known = new Map();
  for (let index = 0; index < n_lives; index++) {
    const group = groups[index];
    let colour = known.get(group);
    if (!colour) known.set(group, colour = rgb(kind, group));
    // Neighbours of one group stay apart: three shades, by the number of the life.
    const shade = 1 - 0.06 * (lives[index] % 3);
    const fade = is_searched && !matches[index] ? 0.82 : 0;
    /** @param {number} of @param {number} to */
    const part = (of, to) => Math.round(of * shade * (1 - fade) + to * fade);
    pixels[index + FIRST_LIFE] = pixel(part(colour[0], red), part(colour[1], green), part(colour[2], blue));
  }
  return pixels;
}

// The raster has a column after the other, the bitmap a row after the other: blocks of columns keep both in the caches.
/** @param {Uint16Array} raster @param {Uint32Array} pixels @param {number} n_columns @param {number} n_rows @param {Uint32Array} colours */
function transpose(raster, pixels, n_columns, n_rows, colours) {
  const STEP = 32;
  for (let first = 0; first < n_columns; first += STEP) {
    const last = Math.min(first + STEP, n_columns);
    for (let row = 0; row < n_rows; row++) {
      const line = (n_rows - 1 - row) * n_columns;
      for (let column = first, cell = first * n_rows + row; column < last; column++, cell += n_rows) {
        pixels[line + column] = colours[raster[cell]];
      }
    }
  }
}

/**
 * Returns the column at a place of the axis.
 * @param {Picture} picture @param {number} place
 */
export function column_at(picture, place) {
  const column = Math.floor(((place - picture.from) / (picture.to - picture.from)) * picture.n_columns);
  return Math.min(Math.max(column, 0), picture.n_columns - 1);
}

/**
 * Returns what the picture has at a place and a height: {column, value, life, bytes, group}.
 * @param {Picture} picture @param {number} place @param {number} height @returns {Cell & {column: number}}
 */
export function cell_at(picture, place, height) {
  const column = column_at(picture, place);
  const row = Math.floor(((height - picture.low) / (picture.high - picture.low)) * picture.n_rows);
  if (row < 0 || row >= picture.n_rows) return {column, value: 0, life: null};
  return {column, ...meaning(picture, picture.raster[column * picture.n_rows + row])};
}

/** @param {Picture} picture @param {number} value @returns {Cell} */
function meaning(picture, value) {
  if (value < FIRST_LIFE) return {value, life: null};
  const index = value - FIRST_LIFE;
  if (picture.lives[index] === SUM) return {value, life: null, sum: picture.groups[index]};
  return {value, life: picture.lives[index], bytes: picture.sizes[index], group: picture.groups[index]};
}

/**
 * Returns the blocks of a column from the bottom: [{life, bytes, group}].
 * @param {Picture} picture @param {number} column
 */
export function blocks_of(picture, column) {
  const found = [];
  let last = 0;
  for (let row = 0; row < picture.n_rows; row++) {
    const value = picture.raster[column * picture.n_rows + row];
    const of = value !== last && value >= FIRST_LIFE ? meaning(picture, value) : null;
    if (of && of.life !== null) found.push(of);
    last = value;
  }
  return found;
}

/**
 * Returns where a life is: {first, lows, highs}, rows for each column from `first` on, or null if it is not in the picture.
 * @param {Picture} picture @param {number} life
 */
export function outline(picture, life) {
  if (picture.outlines.has(life)) return picture.outlines.get(life);
  const index = picture.lives.indexOf(life);
  const found = index < 0 ? null : trace(picture, index + FIRST_LIFE);
  if (picture.outlines.size > 20) picture.outlines.clear();
  picture.outlines.set(life, found);
  return found;
}

/** @param {Raster} of @param {number} value */
function trace({raster, n_columns, n_rows}, value) {
  const lows = [];
  const highs = [];
  let first = -1;
  let end = 0;
  for (let column = 0; column < n_columns; column++) {
    const part = raster.subarray(column * n_rows, (column + 1) * n_rows);
    const low = part.indexOf(value);
    if (low >= 0 && first < 0) first = column;
    if (first < 0) continue;
    lows.push(low);
    highs.push(low < 0 ? -1 : part.lastIndexOf(value) + 1);
    if (low >= 0) end = lows.length;
  }
  return first < 0 ? null : {first, lows: lows.slice(0, end), highs: highs.slice(0, end)};
}
