// The state as the address after "#", and back.

const whole = {write: String, read: text => (/^\d{1,15}$/.test(text) ? Number(text) : undefined)};
const signed = {write: String, read: text => (/^-?\d{1,15}$/.test(text) ? Number(text) : undefined)};
const text = {write: String, read: text => text};
const word = (...words) => ({write: String, read: text => (words.includes(text) ? text : undefined)});
const pair = {
  write: ([from, to]) => `${Number(from.toPrecision(12))},${Number(to.toPrecision(12))}`,
  read: text => {
    const [from, to, more] = text.split(",").map(Number);
    return more === undefined && Number.isFinite(from) && Number.isFinite(to) && from < to ? [from, to] : undefined;
  },
};
const FILTERS = ["stream", "pool", "owner", "scope", "least_bytes", "most_bytes", "action"];

// Every key of the state with its default and its form in the address.
const KEYS = {
  file: [0, whole], device: [0, signed],
  view: ["timeline", word("timeline", "state", "stacks", "list", "compare", "ranks")],
  axis: ["events", word("events", "time")],
  range: [null, pair], vertical: [null, pair], interval: [null, pair],
  cursor: [null, whole], life: [null, whole],
  colour: ["stack", word("stack", "function", "owner", "pool", "stream", "scope", "size", "age")],
  search: ["", text],
  other: [null, whole], other_moment: [null, whole],
  what: ["live", word("live", "allocated", "freed")],
  sort: ["bytes", word("bytes", "requested", "life", "waste", "from", "until", "address")], descending: [1, whole],
  conf: ["", text],
};

/** Returns the state of a page that was opened without an address. */
export function defaults() {
  const state = {filters: {}};
  for (const [key, [value]] of Object.entries(KEYS)) state[key] = value;
  return state;
}

/** Returns the state as a hash: "#view=state&cursor=12". Keys with their default are left out. */
export function write(state) {
  const query = new URLSearchParams();
  for (const [key, [value, form]] of Object.entries(KEYS)) {
    if (state[key] !== value && state[key] !== null) query.set(key, form.write(state[key]));
  }
  for (const key of FILTERS) if (state.filters[key] !== undefined) query.set(key, state.filters[key]);
  return "#" + query.toString().replaceAll("%2C", ",");
}

/** Returns the whole state of a hash. Keys that are unknown or wrong have their default. */
export function read(hash) {
  const state = defaults();
  const query = new URLSearchParams(hash.replace(/^#/, ""));
  for (const [key, [, form]] of Object.entries(KEYS)) {
    const value = query.has(key) ? form.read(query.get(key)) : undefined;
    if (value !== undefined) state[key] = value;
  }
  for (const key of FILTERS) if (query.get(key)) state.filters[key] = query.get(key);
  return state;
}

// Changes that the reader makes step by step with a gesture. They become one entry of the browser's history.
const GESTURES = new Set(["range", "vertical", "cursor", "interval", "search"]);

/** Keeps the address and the state of the app equal, in both directions. */
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
    app.set(read(location.hash));
  });
  addEventListener("pagehide", () => { if (timer) store(); });
}
