// Answers from the file itself, in a page that `memreel view --html` wrote. It takes the place of source.js there.
//
// The file has answers that were made when it was written, each deflated on its own. What they leave out is refused with a
// text that says so.

import {block_at, listed, mark, moment_at, next, recolour, totals, totals_between} from "./offline_answers.js";

/** Why there is no answer. */
export class Refusal extends Error {
  /** @param {string} text */
  constructor(text, status = 404) {
    super(text);
    this.status = status;
  }
}

const MISSING = "this part was left out of the file; memreel view shows all of a recording";

/**
 * Returns the source of a page that is one file.
 * @returns {Source}
 */
export function create() {
  const pack = open_pack(document.getElementById("pack")?.textContent ?? "");
  /** @param {string} key */
  /** @param {string} key @returns {Promise<any>} */
  const read = async key => JSON.parse(new TextDecoder().decode(await pack.bytes(key)));
  /** @param {OfDevice} params */
  const of = ({file = 0, device = 0}) => `${file}/${device}`;
  /** @type {(params: OfDevice) => Promise<Kept>} */
  const device_of = cached(params => read(`device/${of(params)}`), of);
  const states = kept_moments(device_of);
  /** @param {OfDevice} of @param {Kept} device */
  const has_all = async ({file = 0, device = 0}, {blocks}) => {
    /** @type {Files} */
    const {files} = await read("files");
    const described = files[file].devices?.find(of => of.device === device);
    return described?.n_lives === Object.keys(blocks).length;
  };
  return {
    /** Nothing more can be asked for than the file has. */
    is_offline: true,
    note: () => read("note"),
    files: () => read("files"),
    async picture(params) {
      const colour = params.colour ?? "stack";
      const key = `picture/${of(params)}/${params.axis}/${params.level}/${params.index}/${params.rise ?? 0}/${params.shelf ?? 0}`;
      const [device, own] = await Promise.all([device_of(params), pack.has(`${key}/${colour}`)]);
      const bytes = await pack.bytes(own ? `${key}/${colour}` : `${key}/stack`);
      if (!own) recolour(bytes, device, colour);
      mark(bytes, device, params.search);
      return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
    },
    groups: params => read(`groups/${of(params)}/${params.colour ?? "stack"}`),
    async block(params) {
      const device = await device_of(params);
      const found = "life" in params ? device.blocks[params.life] : block_at(device, params.address, params.moment);
      if (found) return found;
      if ("life" in params) throw new Refusal("this block was left out of the file, which has the largest ones");
      throw new Refusal(`no block was ever at ${params.address}${await has_all(params, device) ? "" : ", of the largest ones that the file has"}`);
    },
    totals: async ({moment, ...params}) => totals(await device_of(params), moment),
    async totals_between({from, count, ...params}) {
      const found = totals_between(await device_of(params), from, count);
      if (!found) throw new Refusal(MISSING);
      return found;
    },
    moment: async ({time_us, ...params}) => ({moment: moment_at(await device_of(params), time_us)}),
    async next(params) {
      const moment = next(await device_of(params), params.kind, params.moment, Number(params.direction));
      if (moment === undefined) throw new Refusal(MISSING);
      return {moment};
    },
    state: async params => read(`state/${of(params)}/${await states(params, params.moment)}`),
    async icicle(params) {
      if (params.what !== "live" || params.moment === undefined) throw new Refusal(MISSING);
      return read(`icicle/${of(params)}/${await states(params, params.moment)}`);
    },
    list: async params => listed(await device_of(params), params),
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
/** @param {string} text */
function open_pack(text) {
  const all = Uint8Array.from(atob(text.trim()), letter => letter.charCodeAt(0));
  const length = new DataView(all.buffer).getUint32(0, true);
  const index = inflated(all.subarray(4, 4 + length)).then(bytes => JSON.parse(new TextDecoder().decode(bytes)));
  return {
    /** @param {string} key */
    has: async key => key in await index,
    /** @param {string} key */
    async bytes(key) {
      const place = (await index)[key];
      if (!place) throw new Refusal(MISSING);
      const [from, until] = place;
      return inflated(all.subarray(4 + length + from, 4 + length + until));
    },
  };
}

/** @param {Uint8Array<ArrayBuffer>} bytes */
async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** @template Params, Answer @param {(params: Params) => Promise<Answer>} method @param {(params: Params) => string} key_of */
function cached(method, key_of) {
  /** @type {Map<string, Promise<Answer>>} */
  const known = new Map();
  /** @param {Params} params */
  return params => {
    const key = key_of(params);
    const answer = known.get(key) ?? method(params);
    known.set(key, answer);
    return answer;
  };
}

// States are there for some moments. Another moment is refused, with those that are there.
/** @param {(params: OfDevice) => Promise<Kept>} device_of */
function kept_moments(device_of) {
  /** @param {OfDevice} params @param {number} moment */
  return async (params, moment) => {
    const {moments} = await device_of(params);
    if (moments.includes(moment)) return moment;
    const events = moments.map(at => at - 1).join(", ");
    throw new Refusal(`the file has the state after the events ${events}; memreel view has every one`);
  };
}
