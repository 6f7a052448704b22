// The rows of the allocator's state: one a segment or a range of expandable segments, grouped by pool.

import {bytes, counted, percent} from "./text.js";

// Up to here, the blocks of a row are what keeps its segment from being released.
const FEW_BLOCKS = 3;
const LITTLE_USE = 0.5;

/**
 * Returns rows of the answer of `state`: {kind: "pool", text, pool} or {kind: "segment", text, pin, pool, start, bytes, parts},
 * where start is an address (BigInt) and parts are the mapped segments with their `offset` in the row. Pools are sorted by
 * name with "default" first, rows by size.
 */
export function rows_of(state) {
  const pools = new Map();
  for (const row of joined(state.segments)) {
    if (!pools.has(row.pool)) pools.set(row.pool, []);
    pools.get(row.pool).push(row);
  }
  const names = [...pools.keys()].sort((a, b) => (b === "default") - (a === "default") || a.localeCompare(b, "en", {numeric: true}));
  const rows = [];
  for (const name of names) {
    const of = pools.get(name).sort((a, b) => b.mapped - a.mapped || (a.start < b.start ? -1 : 1));
    const mapped = sum(of, row => row.mapped);
    const used = sum(of, row => row.used);
    const parts = sum(of, row => row.parts.length);
    rows.push({kind: "pool", pool: name, text: `Pool ${name}: ${counted(parts, "segment")}, ${bytes(mapped)}, ${percent(mapped ? used / mapped : 0)} in blocks`});
    rows.push(...of);
  }
  return rows;
}

/** Returns the row and the block of a life, as [index of the row, part, block], or null. */
export function find(rows, life) {
  for (let index = 0; index < rows.length; index += 1) {
    for (const part of rows[index].parts ?? []) {
      const block = part.blocks.find(([of]) => of === life);
      if (block) return [index, part, block];
    }
  }
  return null;
}

/** Returns the blocks of a row from left to right, as [offset in the row, block, part]. */
export function blocks_of(row) {
  return (row.parts ?? []).flatMap(part => part.blocks.map(block => [part.offset + block[1], block, part]));
}

// Mapped segments of one expandable range become one row, with the pages of the range that are not mapped now.
function joined(segments) {
  const ranges = new Map();
  const rows = [];
  for (const segment of segments) {
    const key = segment.range ? `${segment.range[0]} ${segment.pool} ${segment.stream}` : null;
    let row = key && ranges.get(key);
    if (!row) {
      row = {kind: "segment", pool: segment.pool, stream: segment.stream, is_expandable: segment.is_expandable, range: segment.range ?? null, parts: []};
      rows.push(row);
      if (key) ranges.set(key, row);
    }
    row.parts.push({...segment, at: BigInt(segment.address)});
  }
  return rows.map(finished);
}

function finished(row) {
  row.parts.sort((a, b) => (a.at < b.at ? -1 : 1));
  row.start = row.range ? BigInt(row.range[0]) : row.parts[0].at;
  for (const part of row.parts) part.offset = Number(part.at - row.start);
  const last = row.parts.at(-1);
  row.bytes = row.range ? row.range[1] : last.offset + last.bytes;
  row.mapped = sum(row.parts, part => part.bytes);
  row.unmapped = row.bytes - row.mapped;
  row.used = sum(row.parts, part => part.used_bytes);
  row.n_blocks = sum(row.parts, part => part.blocks.length);
  row.text = `${bytes(row.mapped)}${row.is_expandable ? " expandable" : ""}${row.unmapped > 0 ? ` of ${bytes(row.bytes)}` : ""}${row.stream ? `, stream ${row.stream}` : ""}`;
  row.share = row.mapped ? row.used / row.mapped : 0;
  row.is_pinned = row.n_blocks > 0 && row.n_blocks <= FEW_BLOCKS && row.share < LITTLE_USE;
  row.detail = row.n_blocks === 0 ? "free" : `${row.is_pinned ? "pinned by " : ""}${counted(row.n_blocks, "block")}: ${percent(row.share)}`;
  return row;
}

function sum(list, value) {
  return list.reduce((total, one) => total + value(one), 0);
}
