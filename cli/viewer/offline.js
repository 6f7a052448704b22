// Answers from the file itself, in a page that `memreel view --html` wrote. It takes the place of source.js there.
//
// The file has answers that were made when it was written, each deflated on its own. What they leave out is refused with a
// text that says so.

/** Why there is no answer. */
export class Refusal extends Error {
  constructor(text, status = 404) {
    super(text);
    this.status = status;
  }
}

const MISSING = "this part was left out of the file; memreel view shows all of a recording";

/** Returns the source of a page that is one file. */
export function create() {
  const pack = open_pack(document.getElementById("pack").textContent);
  const read = async key => JSON.parse(new TextDecoder().decode(await pack.bytes(key)));
  const of = ({file = 0, device = 0}) => `${file}/${device}`;
  const device_of = cached(async params => read(`device/${of(params)}`), of);
  const states = kept_moments(device_of);
  return {
    note: () => read("note"),
    files: () => read("files"),
    async picture(params) {
      const key = `picture/${of(params)}/${params.axis}/${params.level}/${params.index}/${params.rise ?? 0}/${params.shelf ?? 0}`;
      const bytes = await pack.bytes(key);
      return recoloured(bytes, (await device_of(params)).groups, params.colour ?? "stack");
    },
    groups: params => read(`groups/${of(params)}/${params.colour ?? "stack"}`),
    async block(params) {
      const {blocks} = await device_of(params);
      const found = params.life === undefined ? at_address(blocks, params) : blocks[params.life];
      if (!found) throw new Refusal("this block was left out of the file, which has the largest ones");
      return found;
    },
    totals: async params => totals(await device_of(params), params),
    async moment({time_us, ...params}) {
      const {curve} = await device_of(params);
      const after = curve.findIndex(point => point.time_us > time_us);
      return {moment: after < 0 ? curve.at(-1).moment : curve[Math.max(0, after - 1)].moment};
    },
    async next(params) {
      const {marks} = await device_of(params);
      const all = marks[params.kind] ?? [];
      const found = Number(params.direction) < 0 ? all.findLast(at => at < params.moment) : all.find(at => at > params.moment);
      return {moment: found ?? null};
    },
    state: async params => read(`state/${of(params)}/${await states(params, params.moment)}`),
    async icicle(params) {
      if ((params.what ?? "live") !== "live") throw new Refusal(MISSING);
      return read(`icicle/${of(params)}/${await states(params, params.moment)}`);
    },
    list: async params => listed((await device_of(params)).rows, params),
    diff: params => read(`diff/${of(params)}/${params.other}`),
    async whatif() { throw new Refusal("a replay needs the recording itself: memreel view FILE"); },
    async curve(params) {
      const {curve} = await device_of(params);
      return {points: curve.map(point => [point.moment, point.active_bytes, point.reserved_bytes])};
    },
    async end() { throw new Refusal("no server shows this page; close it"); },
  };
}

// The text is base64: the length of the index as 4 bytes, the index, and the answers. Both are deflated.
function open_pack(text) {
  const all = Uint8Array.from(atob(text.trim()), letter => letter.charCodeAt(0));
  const length = new DataView(all.buffer).getUint32(0, true);
  const index = inflated(all.subarray(4, 4 + length)).then(bytes => JSON.parse(new TextDecoder().decode(bytes)));
  return {
    async bytes(key) {
      const place = (await index)[key];
      if (!place) throw new Refusal(MISSING);
      const [from, until] = place;
      return inflated(all.subarray(4 + length + from, 4 + length + until));
    },
  };
}

async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function cached(method, key_of) {
  const known = new Map();
  return params => {
    const key = key_of(params);
    if (!known.has(key)) known.set(key, method(params));
    return known.get(key);
  };
}

// Pictures have the groups of one colour. Those of the others are by life.
function recoloured(bytes, groups, colour) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [n_columns, , n_lives] = [4, 8, 12].map(at => view.getUint32(at, true));
  const lives = 56 + 28 * n_columns;
  for (let at = 0; at < n_lives; at++) {
    const of = groups.lives[view.getUint32(lives + 4 * at, true)];
    view.setUint32(lives + 4 * (n_lives + at), of ? of[groups.colours.indexOf(colour)] : 0, true);
  }
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
}

function at_address(blocks, {address, moment}) {
  const wanted = BigInt(address);
  const holds = block => BigInt(block.address) <= wanted && wanted < BigInt(block.address) + BigInt(Math.max(1, block.bytes));
  const all = Object.values(blocks).filter(holds);
  return all.find(block => block.from <= moment && (block.until === null || moment < block.until)) ?? all[0];
}

// Exact near the moments that matter; elsewhere the figures of the point of the curve before.
function totals({curve, stretches}, {moment, from, count}) {
  const holds = (stretch, at) => stretch.from <= at && at < stretch.from + stretch.totals.length;
  if (from !== undefined) {
    const stretch = stretches.find(of => holds(of, from));
    if (!stretch) throw new Refusal(MISSING);
    const some = stretch.totals.slice(from - stretch.from, from - stretch.from + count);
    const column = name => some.map(of => of[name]);
    return {from, allocated_bytes: column("allocated_bytes"), active_bytes: column("active_bytes"), reserved_bytes: column("reserved_bytes")};
  }
  const stretch = stretches.find(of => holds(of, moment));
  return stretch ? stretch.totals[moment - stretch.from] : curve.findLast(point => point.moment <= moment) ?? curve[0];
}

// States are there for some moments. Another moment is refused, with those that are there.
function kept_moments(device_of) {
  return async (params, moment) => {
    const {moments} = await device_of(params);
    if (moments.includes(moment)) return moment;
    const events = moments.map(at => at - 1).join(", ");
    throw new Refusal(`the file has the state after the events ${events}; memreel view has every one`);
  };
}

function listed(rows, {sort = "bytes", descending = 1, offset = 0, count = 200, search = "", ...filters}) {
  const text = String(search).toLowerCase();
  const is_chosen = row => (!text || [row.where, row.address].some(of => of.toLowerCase().includes(text)))
    && (!filters.least_bytes || row.bytes >= filters.least_bytes) && (!filters.most_bytes || row.bytes <= filters.most_bytes)
    && ["stream", "pool", "scope"].every(name => filters[name] === undefined || filters[name] === "" || filters[name] === null || String(row[name]) === String(filters[name]));
  const figure = {
    bytes: row => row.bytes, requested: row => row.requested_bytes, waste: row => row.bytes - row.requested_bytes, from: row => row.from,
    life: row => (row.until ?? Infinity) - row.from, until: row => row.until ?? Infinity, address: row => Number(row.address), use: row => Number(row.address),
  }[sort];
  const chosen = rows.filter(is_chosen).sort((one, other) => figure(one) - figure(other));
  if (Number(descending)) chosen.reverse();
  return {n: chosen.length, rows: chosen.slice(Number(offset), Number(offset) + Number(count))};
}
