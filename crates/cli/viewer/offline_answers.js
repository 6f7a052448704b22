// Answers that a page in one file finds in what it keeps of a device: the figures of some moments, and the largest blocks.
// Nothing here is a guess: what is not exact says so.

import {REST, decode} from "./picture.js";

// The group of a block that was not kept.
const UNKNOWN = 0xffffffff;
// Filters by a name.
const NAMED = /** @type {const} */ (["stream", "pool", "owner", "scope"]);

/**
 * Returns the totals at a moment: those that were kept, or those of the next kept moment, as an approximation.
 * @param {Kept} kept @param {number} moment @returns {Totals}
 */
export function totals({totals: all}, moment) {
  const next = all.find(of => of.moment >= moment) ?? all[all.length - 1];
  if (next.moment === moment) return next;
  return {...next, moment, event: moment > 0 ? moment - 1 : null, action: null, time_us: null, is_approximate: true};
}

/**
 * Returns the kept block that is in use at an address at a moment, or else the nearest in time.
 * @param {Kept} kept @param {string} address @param {number} moment
 */
export function block_at({blocks}, address, moment) {
  const wanted = BigInt(address);
  /** @param {Block} block */
  const holds = block => BigInt(block.address) <= wanted && wanted < BigInt(block.address) + BigInt(Math.max(1, block.bytes));
  /** @param {Block} block */
  const distance = ({from, until}) => (from <= moment && moment < (until ?? Infinity) ? 0 : 1 + Math.min(Math.abs(from - moment), Math.abs((until ?? Infinity) - moment)));
  return Object.values(blocks).filter(holds).sort((one, other) => distance(one) - distance(other)).at(0);
}

// Whether the event of a filter such as "alloc" or "alloc:120-340" happened to a block.
/** @param {Block} block @param {string} action */
function happened({from, requested, until}, action) {
  const [what, interval] = action.split(":");
  const [first, last] = interval ? interval.split("-").map(Number) : [0, Infinity];
  if (what === "kept" && (requested !== null || until !== null)) return false;
  const moment = {alloc: from, kept: from, free_requested: requested, free_completed: until}[what] ?? 0;
  return moment > first && moment <= last;
}

// Returns the function that says whether a block has a text in a frame, in a name, or at the beginning of its address.
/** @param {string} text @returns {(block: Block) => boolean} */
function search_for(text) {
  const wanted = text.toLowerCase();
  /** @param {string | null} part */
  const has = part => (part ?? "").toLowerCase().includes(wanted);
  return block => block.frames.some(frame => has(frame.name) || has(frame.filename)) || block.names.some(has)
    || (wanted.startsWith("0x") && block.address.startsWith(wanted));
}

/**
 * Returns a page of the list of the kept blocks. `n_kept` is the number of blocks that there are to choose from.
 * @param {Kept} kept @param {ListParams} params @returns {Rows}
 */
export function listed(kept, {sort = "bytes", descending = 1, offset = 0, count = 200, search = "", action, least_bytes, most_bytes, ...names}) {
  const all = Object.values(kept.blocks);
  const is_found = search_for(search);
  /** @param {Block} block */
  const is_chosen = block => (!search || is_found(block)) && (!action || happened(block, action))
    && block.bytes >= Number(least_bytes || 0) && block.bytes <= Number(most_bytes || Infinity)
    && NAMED.every(name => !names[name] || String(block[name]) === names[name]);
  /** @type {Record<string, (block: Block) => number>} */
  const figures = {
    bytes: of => of.bytes, requested: of => of.requested_bytes, waste: of => of.bytes - of.requested_bytes, from: of => of.from,
    life: of => (of.until ?? kept.totals[kept.totals.length - 1].moment) - of.from, until: of => of.until ?? Infinity, address: of => Number(of.address),
  };
  const figure = figures[sort];
  const rows = all.filter(is_chosen).sort((one, other) => (descending ? -1 : 1) * (figure(one) - figure(other) || 0));
  return {n: rows.length, n_kept: all.length, rows: rows.slice(offset, offset + count)};
}

/**
 * Marks, in a picture, the kept blocks that a search finds. Gives them the groups of `colour`, unless that is null; the blocks that
 * were not kept then become a part of the rest.
 * @param {ArrayBuffer} picture @param {Kept} kept @param {Colouring | null} colour @param {string | undefined} search
 */
export function adapt(picture, {blocks}, colour, search) {
  const {lives, groups, matches, raster} = decode(picture);
  const is_found = search ? search_for(search) : () => false;
  for (const [at, life] of lives.entries()) {
    const block = blocks[life];
    matches[at] = Number(block !== undefined && is_found(block));
    if (colour) groups[at] = block?.groups[colour] ?? UNKNOWN;
  }
  if (!colour) return;
  for (const [cell, value] of raster.entries()) if (value > REST && groups[value - REST - 1] === UNKNOWN) raster[cell] = REST;
}
