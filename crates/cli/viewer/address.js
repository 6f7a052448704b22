// The state as the address after "#", and back.

/** @template Value @typedef {{write(value: Value): string, read(text: string): Value | undefined}} Form */

/** @type {Form<number>} */
const whole = {write: String, read: text => (/^\d{1,15}$/.test(text) ? Number(text) : undefined)};
/** @type {Form<number>} */
const signed = {write: String, read: text => (/^-?\d{1,15}$/.test(text) ? Number(text) : undefined)};
/** @type {Form<string>} */
const text = {write: String, read: text => text};
/** @param {...string} words @returns {Form<string>} */
const word = (...words) => ({write: String, read: text => (words.includes(text) ? text : undefined)});
/** @type {Form<Interval>} */
const pair = {
  write: ([from, to]) => `${Number(from.toPrecision(12))},${Number(to.toPrecision(12))}`,
  read: text => {
    const [from, to, more] = text.split(",").map(Number);
    return more === undefined && Number.isFinite(from) && Number.isFinite(to) && from < to ? [from, to] : undefined;
  },
};
/** @type {(keyof Filters)[]} */
const FILTERS = ["stream", "pool", "owner", "scope", "least_bytes", "most_bytes", "action"];

/**
 * Every key of the state but the filters, with its default and its form in the address.
 * @type {Record<string, [value: unknown, form: Form<any>]>}
 */
const KEYS = {
  file: [0, whole], device: [0, signed],
  view: ["timeline", word("timeline", "state", "stacks", "list", "compare", "ranks", "answer")],
  axis: ["events", word("events", "time")],
  range: [null, pair], vertical: [null, pair], interval: [null, pair],
  cursor: [null, whole], life: [null, whole],
  colour: ["stack", word("stack", "function", "owner", "pool", "stream", "scope", "size", "age")],
  search: ["", text],
  other: [null, whole], other_moment: [null, whole],
  what: ["live", word("live", "allocated", "freed")],
  sort: ["bytes", word("bytes", "requested", "life", "waste", "from", "until", "address")], descending: [1, whole],
  conf: ["", text],
  question: ["summary", word("summary", "oom", "leaks", "settings", "fit")],
};

/** Returns the state of a page that was opened without an address. */
export function defaults() {
  /** @type {Record<string, unknown>} */
  const state = {filters: {}};
  for (const [key, [value]] of Object.entries(KEYS)) state[key] = value;
  return /** @type {State} */ (state);
}

/**
 * Returns the state as a hash: "#view=state&cursor=12". Keys with their default are left out.
 * @param {State} state
 */
export function write(state) {
  const query = new URLSearchParams();
  const values = /** @type {Record<string, unknown>} */ (state);
  for (const [key, [value, form]] of Object.entries(KEYS)) {
    if (values[key] !== value && values[key] !== null) query.set(key, form.write(values[key]));
  }
  for (const key of FILTERS) {
    const value = state.filters[key];
    if (value !== undefined) query.set(key, value);
  }
  return "#" + query.toString().replaceAll("%2C", ",");
}

/** Returns the state of the page's address. Without one, a page that is one file may have the view to begin with. */
export function current() {
  return read(location.hash || document.getElementById("pack")?.dataset.start || "");
}

/**
 * Returns the whole state of a hash. Keys that are unknown or wrong have their default.
 * @param {string} hash
 */
export function read(hash) {
  const state = defaults();
  const values = /** @type {Record<string, unknown>} */ (state);
  const query = new URLSearchParams(hash.replace(/^#/, ""));
  for (const [key, [, form]] of Object.entries(KEYS)) {
    const text = query.get(key);
    const value = text === null ? undefined : form.read(text);
    if (value !== undefined) values[key] = value;
  }
  for (const key of FILTERS) {
    const text = query.get(key);
    if (text) state.filters[key] = text;
  }
  return state;
}

// Changes that the reader makes step by step with a gesture. They become one entry of the browser's history.
const GESTURES = new Set(["range", "vertical", "cursor", "interval", "search"]);

/**
 * Keeps the address and the state of the app equal, in both directions.
 * @param {App} app
 */
export function follow(app) {
  let timer = 0;
  const store = () => {
    clearTimeout(timer);
    timer = 0;
    const hash = write(app.state);
    if (hash !== (location.hash || "#")) history.pushState(null, "", hash);
  };
  app.on(changed => {
    const keys = [...changed].filter(key => key in app.state);
    if (!keys.length) return;
    clearTimeout(timer);
    timer = setTimeout(store, keys.every(key => GESTURES.has(key)) ? 500 : 50);
  });
  addEventListener("popstate", () => {
    clearTimeout(timer);
    app.set(current());
  });
  addEventListener("pagehide", () => { if (timer) store(); });
}
