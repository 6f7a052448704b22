// The rows of the allocator's state: one a segment or a range of expandable segments, grouped by pool.

import {bytes, counted, percent} from "./text.js";

/**
 * A segment's row that has its parts alone.
 * @typedef {Pick<SegmentRow, "kind" | "pool" | "stream" | "is_expandable" | "range" | "parts">} Unfinished
 */

// Up to here, the blocks of a row are what keeps its segment from being released.
const FEW_BLOCKS = 3;
const LITTLE_USE = 0.5;

/**
 * Returns rows of the answer of `state`: {kind: "pool", text, pool} or {kind: "segment", text, pin, pool, start, bytes, parts},
 * where start is an address (BigInt) and parts are the mapped segments with their `offset` in the row. Pools are sorted by
 * name with "default" first, rows by size.
 * @param {AllocatorState} state @returns {(PoolRow | SegmentRow)[]}
 */
export function rows_of(state) {
  /** @type {Map<string, SegmentRow[]>} */
  const pools = new Map();
  for (const row of joined(state.segments)) {
    const of = pools.get(row.pool);
    if (of) of.push(row);
    else pools.set(row.pool, [row]);
  }
  const sorted = [...pools].sort(([a], [b]) => Number(b === "default") - Number(a === "default") || a.localeCompare(b, "en", {numeric: true}));
  /** @type {(PoolRow | SegmentRow)[]} */
  const rows = [];
  for (const [name, of] of sorted) {
    of.sort((a, b) => b.mapped - a.mapped || (a.start < b.start ? -1 : 1));
    const mapped = sum(of, row => row.mapped);
    const used = sum(of, row => row.used);
    const parts = sum(of, row => row.parts.length);
    rows.push({kind: "pool", pool: name, text: `Pool ${name}: ${counted(parts, "segment")}, ${bytes(mapped)}, ${percent(mapped ? used / mapped : 0)} in blocks`});
    rows.push(...of);
  }
  return rows;
}

/**
 * Returns the row and the block of a life, as [index of the row, part, block], or null.
 * @param {(PoolRow | SegmentRow)[]} rows @param {number} life @returns {[index: number, part: Part, block: SegmentBlock] | null}
 */
export function find(rows, life) {
  for (let index = 0; index < rows.length; index += 1) {
    for (const part of parts_of(rows[index])) {
      const block = part.blocks.find(([of]) => of === life);
      if (block) return [index, part, block];
    }
  }
  return null;
}

/**
 * Returns the blocks of a row from left to right, as [offset in the row, block, part].
 * @param {PoolRow | SegmentRow} row @returns {[offset: number, block: SegmentBlock, part: Part][]}
 */
export function blocks_of(row) {
  return parts_of(row).flatMap(part => part.blocks.map(block => [part.offset + block[1], block, part]));
}

/** @param {PoolRow | SegmentRow} row */
const parts_of = row => (row.kind === "segment" ? row.parts : []);

// Mapped segments of one expandable range become one row, with the pages of the range that are not mapped now.
/** @param {Segment[]} segments */
function joined(segments) {
  /** @type {Map<string, Unfinished>} */
  const ranges = new Map();
  /** @type {Unfinished[]} */
  const rows = [];
  for (const segment of segments) {
    const key = segment.range ? `${segment.range[0]} ${segment.pool} ${segment.stream}` : null;
    let row = key === null ? undefined : ranges.get(key);
    if (!row) {
      row = {kind: "segment", pool: segment.pool, stream: segment.stream, is_expandable: segment.is_expandable, range: segment.range ?? null, parts: []};
      rows.push(row);
      if (key) ranges.set(key, row);
    }
    row.parts.push({...segment, at: BigInt(segment.address), offset: 0});
  }
  return rows.map(finished);
}

/** @param {Unfinished} row @returns {SegmentRow} */
function finished(row) {
  const {parts, range} = row;
  parts.sort((a, b) => (a.at < b.at ? -1 : 1));
  const start = range ? BigInt(range[0]) : parts[0].at;
  for (const part of parts) part.offset = Number(part.at - start);
  const last = parts[parts.length - 1];
  const size = range ? range[1] : last.offset + last.bytes;
  const mapped = sum(parts, part => part.bytes);
  const unmapped = size - mapped;
  const used = sum(parts, part => part.used_bytes);
  const n_blocks = sum(parts, part => part.blocks.length);
  const share = mapped ? used / mapped : 0;
  const is_pinned = n_blocks > 0 && n_blocks <= FEW_BLOCKS && share < LITTLE_USE;
  return {
    ...row, start, bytes: size, mapped, unmapped, used, n_blocks, is_pinned,
    text: `${bytes(mapped)}${row.is_expandable ? " expandable" : ""}${unmapped > 0 ? ` of ${bytes(size)}` : ""}${row.stream ? `, stream ${row.stream}` : ""}`,
    detail: n_blocks === 0 ? "free" : `${is_pinned ? "pinned by " : ""}${counted(n_blocks, "block")}: ${percent(share)}`,
  };
}

/** @template T @param {T[]} list @param {(one: T) => number} value */
function sum(list, value) {
  return list.reduce((total, one) => total + value(one), 0);
}
