// Answers from the file itself, in a page that `memreel view --html` wrote. The file has answers of the server by the requests
// for them, each deflated on its own. What it leaves out is refused with a text that says so.

import {adapt, block_at, listed, totals} from "./offline_answers.js";
import {Refusal, cached, query_of} from "./source.js";

const MISSING = "this part was left out of the file; use memreel view to see the whole recording";
// An answer in the file is the same for any filters, and as fine as it is.
const IGNORED = ["stream", "pool", "owner", "scope", "least_bytes", "most_bytes", "action", "search", "rows", "points"];

/**
 * Returns the source of a page that is one file.
 * @param {string} text the packed answers @returns {Source}
 */
export function create(text) {
  const pack = open_pack(text);
  /** @param {string} name @returns {Ask<any, any>} */
  const json = name => async params => (await pack.answer(key_of(name, params))).json();
  /** @type {Ask<OfDevice, Kept>} */
  const kept_of_device = cached(json("kept"), 100);
  /** @param {OfDevice} params */
  const kept_of = ({file = 0, device = 0}) => kept_of_device({file, device});
  // States are there for some moments, in one colour. Another moment is refused, with those that are there.
  /** @param {string} name @returns {Ask<any, any>} */
  const json_at_moment = name => async params => {
    const {moments} = await kept_of(params);
    if (params.moment === undefined || moments.includes(params.moment)) return json(name)({...params, colour: null});
    throw new Refusal(`this file contains the state only after the events ${moments.map(at => at - 1).join(", ")}; for other events, use memreel view`);
  };
  return {
    is_offline: true,
    note: () => json("note")({}),
    files: () => json("files")({}),
    async picture(params) {
      const key = key_of("picture", params);
      const is_own = await pack.has(key);
      const answer = await pack.answer(is_own ? key : key_of("picture", {...params, colour: "stack"}));
      const picture = await answer.arrayBuffer();
      adapt(picture, await kept_of(params), is_own ? null : params.colour, params.search);
      return picture;
    },
    groups: json("groups"),
    async block(params) {
      const kept = await kept_of(params);
      const found = "life" in params ? kept.blocks[params.life] : block_at(kept, params.address, params.moment);
      if (found) return found;
      if ("life" in params) throw new Refusal("this block was left out of the file, which contains only the largest ones");
      throw new Refusal(`none of the blocks in the file was ever at ${params.address}`);
    },
    totals: async params => totals(await kept_of(params), params.moment),
    async totals_between() { throw new Refusal(MISSING); },
    moment: async params => ({moment: (await kept_of(params)).totals.findLast(of => (of.time_us ?? 0) <= params.time_us)?.moment ?? 0}),
    async next({kind, moment, direction, ...params}) {
      const {moments, until} = (await kept_of(params)).marks[kind];
      if (moment + direction > until) throw new Refusal(MISSING);
      return {moment: (direction < 0 ? moments.findLast(at => at < moment) : moments.find(at => at > moment)) ?? null};
    },
    state: json_at_moment("state"),
    icicle: json_at_moment("icicle"),
    list: async params => listed(await kept_of(params), params),
    async diff({moment, other_moment, ...params}) {
      /** @type {Difference} */
      const found = await json("diff")(params);
      if ([null, found.before.moment].includes(moment) && [null, found.after.moment].includes(other_moment)) return found;
      throw new Refusal("this file can compare only the peaks; clear the events, or use memreel view");
    },
    async whatif() { throw new Refusal("a replay needs the recording itself: memreel view FILE"); },
    async answer(params) {
      if (["settings", "fit"].includes(params.question ?? "")) throw new Refusal("a replay needs the recording itself: memreel view FILE");
      return json("answer")(params);
    },
    curve: json("curve"),
    async end() { throw new Refusal("no server is running for this page; close it"); },
  };
}

/** @param {string} name @param {object} params */
function key_of(name, params) {
  const query = query_of(params);
  for (const key of IGNORED) query.delete(key);
  query.sort();
  return query.size ? `${name}?${query}` : name;
}

// The text is base64: the length of the index as 4 bytes, the index, and the answers. Both are deflated.
/** @param {string} text */
function open_pack(text) {
  const all = Uint8Array.from(atob(text.trim()), letter => letter.charCodeAt(0));
  const begin = 4 + new DataView(all.buffer).getUint32(0, true);
  /** @type {Promise<Record<string, [from: number, until: number]>>} */
  const index = inflated(all.subarray(4, begin)).json();
  return {
    /** @param {string} key */
    has: async key => key in await index,
    /** @param {string} key */
    async answer(key) {
      const place = (await index)[key];
      if (!place) throw new Refusal(MISSING);
      return inflated(all.subarray(begin + place[0], begin + place[1]));
    },
  };
}

/** @param {Uint8Array<ArrayBuffer>} bytes */
function inflated(bytes) {
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")));
}
