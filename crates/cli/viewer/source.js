// Asks the server: one method for each endpoint, each with parameters and an optional {signal} that aborts it.

/** What is answered instead of the data: why there is none, and the status. */
export class Refusal extends Error {
  /** @param {string} text */
  constructor(text, status = 404) {
    super(text);
    this.status = status;
  }
}

/**
 * Returns the source.
 * @param {(url: string, options: RequestInit) => Promise<Response>} [get] @returns {Source}
 */
export function create(get = fetch) {
  /** @param {string} name @param {Record<string, unknown>} params @param {Options & {method?: string}} options */
  const ask = (name, params, options) => answer_of(get, name, params, options);
  /** @param {string} name @returns {Ask<any, any>} */
  const json = name => (params = {}, options = {}) => ask(name, params, options).then(answer => answer.json());
  return {
    files: () => json("files")({}),
    picture: (params, options = {}) => ask("picture", {...params}, options).then(answer => answer.arrayBuffer()),
    groups: json("groups"),
    block: cached(json("block"), 2000),
    totals: json("totals"),
    totals_between: json("totals"),
    moment: json("moment"),
    next: json("next"),
    state: json("state"),
    icicle: json("icicle"),
    list: json("list"),
    diff: json("diff"),
    whatif: json("whatif"),
    // Who asks for an answer again may stop asking: the others still wait for it.
    answer: cached(params => json("answer")(params), 50),
    curve: json("curve"),
    end: () => ask("end", {}, {method: "POST"}),
  };
}

/**
 * Returns the query of a request. Parameters that are null, undefined or "" are left out.
 * @param {object} params
 */
export function query_of(params) {
  const given = Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return new URLSearchParams(given.map(([key, value]) => [key, String(value)]));
}

/** @param {(url: string, options: RequestInit) => Promise<Response>} get @param {string} name @param {Record<string, unknown>} params @param {Options & {method?: string}} options */
async function answer_of(get, name, params, options) {
  const text = query_of(params).toString();
  const answer = await get(text ? `${name}?${text}` : name, {method: options.method || "GET", signal: options.signal ?? null, cache: "no-store"});
  if (answer.ok) return answer;
  let reason = `${name}: the server answered ${answer.status}`;
  try { reason = (await answer.json()).error || reason; } catch { /* not JSON: the status is all there is */ }
  throw new Refusal(reason, answer.status);
}

/**
 * Keeps the latest `most` answers. A failed one is forgotten.
 * @template Params, Answer @param {Ask<Params, Answer>} method @param {number} most @returns {Ask<Params, Answer>}
 */
export function cached(method, most) {
  /** @type {Map<string, Promise<Answer>>} */
  const answers = new Map();
  return (params, options) => {
    const key = JSON.stringify(params);
    const known = answers.get(key);
    if (known) return known;
    const answer = method(params, options);
    answers.set(key, answer);
    answer.catch(() => answers.delete(key));
    if (answers.size > most) answers.delete(/** @type {string} */ (answers.keys().next().value));
    return answer;
  };
}
