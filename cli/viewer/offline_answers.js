// What a page that is one file knows of a device: figures of some moments, and the largest blocks. Nothing here is a guess:
// what was not kept is null, and what is not exact says so.

// What a picture has in the place of a life: the small blocks of a group. And the value of its cells for the rest.
const BANDS = 0xffffffff;
const REST = 1;
// Filters by a name.
/** @type {("stream" | "pool" | "owner" | "scope")[]} */
const NAMED = ["stream", "pool", "owner", "scope"];

// The moment at the end of the history.
/** @param {Kept} of */
const end_of = ({curve}) => curve[curve.length - 1].until;

/**
 * Returns the totals at a moment: those that were kept, or those of the highest moment near it, as an approximation.
 * @param {Kept} device @param {number} moment
 */
export function totals(device, moment) {
  const {curve} = device;
  const exact = exact_totals(device, moment);
  if (exact) return exact;
  const point = curve.find(({until}) => moment <= until) ?? curve[curve.length - 1];
  return {...point, moment, event: moment > 0 ? moment - 1 : null, action: null, time_us: null, is_approximate: true};
}

/**
 * Returns the totals of some moments, or null if one of them was not kept. Moments after the last one are left out.
 * @param {Kept} device @param {number} from @param {number} count
 */
export function totals_between(device, from, count) {
  const until = Math.min(from + count, end_of(device) + 1);
  /** @type {Totals[]} */
  const all = [];
  for (let moment = from; moment < until; moment++) {
    const exact = exact_totals(device, moment);
    if (!exact) return null;
    all.push(exact);
  }
  /** @param {"allocated_bytes" | "active_bytes" | "reserved_bytes"} name */
  const column = name => all.map(of => of[name]);
  return {from, allocated_bytes: column("allocated_bytes"), active_bytes: column("active_bytes"), reserved_bytes: column("reserved_bytes")};
}

/** @param {Kept} of @param {number} moment */
function exact_totals({curve, stretches}, moment) {
  const stretch = stretches.find(of => of.from <= moment && moment < of.from + of.totals.length);
  return stretch ? stretch.totals[moment - stretch.from] : curve.find(point => point.moment === moment) ?? null;
}

/**
 * Returns the last moment at or before a time, as far as it is known.
 * @param {Kept} device @param {number} time_us
 */
export function moment_at(device, time_us) {
  const {curve} = device;
  const after = curve.findIndex(point => (point.time_us ?? 0) > time_us);
  return after < 0 ? end_of(device) : curve[Math.max(0, after - 1)].moment;
}

/**
 * Returns the kept block that is in use at an address at a moment, or else the nearest in time; null if none was ever there.
 * @param {Kept} device @param {string} address @param {number} [moment]
 */
export function block_at(device, address, moment = end_of(device)) {
  const wanted = BigInt(address);
  /** @param {Block} block */
  const holds = block => BigInt(block.address) <= wanted && wanted < BigInt(block.address) + BigInt(Math.max(1, block.bytes));
  /** @param {Block} of */
  const is_live = ({from, until}) => from <= moment && (until === null || moment < until);
  /** @param {Block} block */
  const distance = block => (is_live(block) ? 0 : 1 + Math.min(Math.abs(block.from - moment), Math.abs((block.until ?? Infinity) - moment)));
  /** @param {Block | null} best @param {Block} block */
  const nearer = (best, block) => (best && distance(best) <= distance(block) ? best : block);
  return Object.values(device.blocks).filter(holds).reduce(nearer, null);
}

// Whether the event of a filter such as "alloc" or "alloc:120-340" happened to a block.
/** @param {{from: number, requested: number | null, until: number | null}} of @param {string} action */
function happened({from, requested, until}, action) {
  const [what, interval] = action.split(":");
  const [first, last] = interval ? interval.split("-").map(Number) : [0, Infinity];
  if (what === "kept" && (requested !== null || until !== null)) return false;
  const moment = {alloc: from, kept: from, free_requested: requested, free_completed: until}[what];
  return moment !== null && moment !== undefined && moment > first && moment <= last;
}

/**
 * Returns the lives of the kept blocks that have a text in a frame, in a name, or at the beginning of their address.
 * @param {Kept} of @param {string} text
 */
export function found({blocks}, text) {
  const wanted = String(text).toLowerCase();
  /** @param {string | null} part */
  const has = part => (part ?? "").toLowerCase().includes(wanted);
  /** @param {Block} block */
  const is_found = block => block.frames.some(frame => has(frame.name) || has(frame.filename)) || (block.names ?? []).some(has)
    || (wanted.startsWith("0x") && block.address.toLowerCase().startsWith(wanted));
  return new Set(Object.values(blocks).filter(is_found).map(block => block.life));
}

/**
 * Returns a page of the kept rows. `n_kept` is the number of rows that there are to choose from.
 * @param {Kept} device @param {ListParams} params
 */
export function listed(device, {sort = "bytes", descending = 1, offset = 0, count = 200, search = "", ...filters}) {
  const {rows, blocks} = device;
  const lives = search ? found(device, search) : null;
  const end = end_of(device);
  /** @param {unknown} value */
  const is_set = value => value !== undefined && value !== null && value !== "";
  /** @param {Row} row @param {"stream" | "pool" | "owner" | "scope"} name */
  const of = (row, name) => (name === "owner" ? blocks[row.life]?.owner : row[name]);
  /** @param {Row} row */
  const is_chosen = row => (!lives || lives.has(row.life))
    && (!filters.action || happened({...row, requested: blocks[row.life]?.requested ?? null}, filters.action))
    && (!is_set(filters.least_bytes) || row.bytes >= Number(filters.least_bytes))
    && (!is_set(filters.most_bytes) || row.bytes <= Number(filters.most_bytes))
    && NAMED.every(name => !is_set(filters[name]) || String(of(row, name)) === String(filters[name]));
  /** @type {Record<string, (row: Row) => number>} */
  const figures = {
    /** @param {Row} row */
    bytes: row => row.bytes, requested: row => row.requested_bytes, waste: row => row.bytes - row.requested_bytes, from: row => row.from,
    /** @param {Row} row */
    life: row => (row.until ?? end) - row.from, until: row => row.until ?? Number.MAX_SAFE_INTEGER, address: row => Number(row.address),
  };
  const figure = figures[sort];
  const sign = Number(descending) ? -1 : 1;
  const chosen = rows.filter(is_chosen).sort((one, other) => sign * (figure(one) - figure(other)));
  return {n: chosen.length, n_kept: rows.length, rows: chosen.slice(Number(offset), Number(offset) + Number(count))};
}

/**
 * Returns the mark before or after a moment, or null if there is none; undefined if it may be one that was not kept.
 * @param {Kept} of @param {string} kind @param {number} moment @param {number} direction
 */
export function next({marks}, kind, moment, direction) {
  const {moments, whole_until} = marks[kind] ?? {moments: [], whole_until: null};
  if (whole_until !== null && moment > whole_until) return undefined;
  if (direction < 0) return moments.findLast(at => at < moment) ?? null;
  return moments.find(at => at > moment) ?? (whole_until === null ? null : undefined);
}

/**
 * Marks, in place, the blocks of a picture that a search finds. A block that was not kept is not found.
 * @param {Uint8Array<ArrayBuffer>} picture @param {Kept} device @param {string | undefined} search
 */
export function mark(picture, device, search) {
  const {view, n_lives, lives, matches} = parts(picture);
  const hits = search ? found(device, search) : new Set();
  for (let at = 0; at < n_lives; at++) view.setUint8(matches + at, hits.has(view.getUint32(lives + 4 * at, true)) ? 1 : 0);
}

/**
 * Gives a picture, in place, the groups of another colour than that which it was drawn in. They are known of the kept blocks; the
 * others become a part of the rest.
 * @param {Uint8Array<ArrayBuffer>} picture @param {Kept} device @param {Colouring} colour
 */
export function recolour(picture, {groups}, colour) {
  const {view, n_cells, n_lives, lives, cells} = parts(picture);
  const column = groups.colours.indexOf(colour);
  const is_unknown = new Uint8Array(n_lives);
  for (let at = 0; at < n_lives; at++) {
    const life = view.getUint32(lives + 4 * at, true);
    const of = life === BANDS ? undefined : groups.lives[life];
    if (of) view.setUint32(lives + 4 * (n_lives + at), of[column] ?? 0, true);
    else is_unknown[at] = 1;
  }
  for (let cell = 0; cell < n_cells; cell++) {
    const value = view.getUint16(cells + 2 * cell, true);
    if (value > REST && is_unknown[value - REST - 1]) view.setUint16(cells + 2 * cell, REST, true);
  }
}

// Where the parts of a picture begin, as picture.js reads them.
/** @param {Uint8Array<ArrayBuffer>} picture */
function parts(picture) {
  const view = new DataView(picture.buffer, picture.byteOffset, picture.byteLength);
  const [n_columns, n_rows, n_lives] = [4, 8, 12].map(at => view.getUint32(at, true));
  const lives = 56 + 28 * n_columns;
  const matches = lives + 16 * n_lives;
  return {view, n_cells: n_columns * n_rows, n_lives, lives, matches, cells: Math.ceil((matches + n_lives) / 4) * 4};
}
