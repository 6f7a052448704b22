// The windows of the timeline: which pictures a view needs, which are here, and which are asked for.

import {decode} from "./picture.js";
import {create as create_painter} from "./painter.js";
import {Refusal} from "./source.js";

const MOST_BYTES = 40e6;
const MOST_REQUESTS = 2;
const FINEST = 40;

const fineness = ({window}) => window.level + window.rise;

/**
 * Returns the tiles of a timeline. `arrived(picture)` is called for each picture, `failed(text)` for each refusal;
 * `rest()` returns the colour of what is not drawn block by block.
 */
export function create(app, {arrived, failed, rest}) {
  const painter = create_painter();
  const pictures = new Map(); // key → picture, the least recently used first
  const running = new Map(); // key → {want, abort}
  const refused = new Set();
  let wants = [];
  let meaning = "";
  let rows = 512;
  let last_drawn = null;

  /** Returns the extent of the axis: moments, or microseconds. */
  const span = () => {
    const device = app.device();
    if (app.state.axis === "time") return Math.max(1, (device.last_us ?? 0) - (device.first_us ?? 0));
    return device.n_events + 1;
  };
  const top = () => Math.max(1, app.device().top_bytes);

  // The finest window in halves of `all` that has [from, to] in it.
  const fitting = (from, to, all) => {
    const width = Math.max(to - from, 1e-9);
    for (let level = Math.min(Math.max(0, Math.floor(Math.log2(all / width))), FINEST); level > 0; level--) {
      const half = all / 2 ** level / 2;
      const index = Math.min(Math.max(Math.floor(from / half), 0), 2 ** (level + 1) - 2);
      if (from >= index * half && to <= (index + 2) * half) return {level, index};
    }
    return {level: 0, index: 0};
  };

  const tile = (level, index, rise, shelf) => {
    const half = span() / 2 ** level / 2;
    const high = top() / 2 ** rise / 2;
    return {
      key: `${level}/${index}/${rise}/${shelf}`, level, index, rise, shelf,
      from: index * half, to: (index + 2) * half, low: shelf * high, high: (shelf + 2) * high,
    };
  };

  const wanted = view => {
    const most = span();
    const across = fitting(Math.max(view.from, 0), Math.min(view.to, most), most);
    const up = fitting(Math.min(Math.max(view.low, 0), top()), Math.min(view.high, top()), top());
    // Windows finer than a moment have no more in them.
    const finest = app.state.axis === "events" ? Math.max(0, Math.ceil(Math.log2(most / 64))) : Math.max(0, Math.floor(Math.log2(most)));
    while (across.level > finest) {
      across.level -= 1;
      across.index = Math.min(Math.floor(across.index / 2), 2 ** (across.level + 1) - 2);
    }
    const here = tile(across.level, across.index, up.level, up.index);
    const list = [here, tile(0, 0, 0, 0)];
    for (const step of view.direction < 0 ? [-1, 1] : [1, -1]) {
      const index = here.index + step;
      if (index >= 0 && index <= 2 ** (here.level + 1) - 2) list.push({...tile(here.level, index, here.rise, here.shelf), is_ahead: true});
    }
    return list;
  };

  const contains = (outer, view) => {
    const slack = span() * 1e-9;
    return outer.from <= view.from + slack && outer.to >= Math.min(view.to, span()) - slack
      && outer.low <= Math.max(view.low, 0) + 1 && outer.high >= Math.min(view.high, top()) - 1;
  };

  const pump = () => {
    for (const want of wants) {
      if (running.size >= MOST_REQUESTS) return;
      if (pictures.has(want.key) && !pictures.get(want.key).is_stale) continue;
      if (running.has(want.key) || refused.has(want.key)) continue;
      ask(want);
    }
  };

  const ask = async want => {
    const abort = new AbortController();
    const of = meaning;
    running.set(want.key, {want, abort});
    const {axis, colour} = app.state;
    const params = {...app.filtered(), axis, level: want.level, index: want.index, rise: want.rise, shelf: want.shelf, rows, colour};
    try {
      const picture = decode(await app.source.picture(params, {signal: abort.signal}));
      const bitmap = await painter.paint(picture, look());
      if (of === meaning) keep(want, Object.assign(picture, {bitmap}));
      else bitmap.close();
    } catch (error) {
      if (of === meaning && error.name !== "AbortError") {
        if (error instanceof Refusal || !(error instanceof TypeError)) refused.add(want.key);
        failed(error.message);
      }
    }
    if (running.get(want.key)?.abort === abort) running.delete(want.key);
    pump();
  };

  const look = () => ({kind: app.state.colour, rest: rest(), is_searched: app.state.search !== ""});

  const drop = picture => {
    if (pictures.get(picture.key) === picture) pictures.delete(picture.key);
    picture.bitmap.close();
  };

  const keep = (want, picture) => {
    // Pictures with other colours were shown until now.
    for (const old of [...pictures.values()]) if (old.is_stale || old.key === want.key) drop(old);
    Object.assign(picture, {key: want.key, window: want});
    pictures.set(want.key, picture);
    shrink();
    arrived(picture);
  };

  const cost = picture => picture.bytes + picture.n_columns * picture.n_rows * 4;

  // The picture of the whole and the one that was drawn last stay.
  const shrink = () => {
    let sum = 0;
    for (const picture of pictures.values()) sum += cost(picture);
    for (const picture of [...pictures.values()].filter(of => fineness(of) > 0 && of !== last_drawn)) {
      if (sum <= MOST_BYTES) return;
      sum -= cost(picture);
      drop(picture);
    }
  };

  return {
    span, top,
    /** Asks for what a view needs and aborts what no view needs any more. */
    want(view, n_rows) {
      const {axis, colour, search} = app.state;
      const shape = JSON.stringify([app.query(), axis, app.device().n_events]);
      const now = JSON.stringify([shape, n_rows, colour, search, app.state.filters]);
      if (now !== meaning) {
        if (meaning && JSON.parse(meaning)[0] !== shape) for (const picture of [...pictures.values()]) drop(picture);
        for (const picture of pictures.values()) picture.is_stale = true;
        for (const {abort} of running.values()) abort.abort();
        running.clear();
        refused.clear();
        meaning = now;
        rows = n_rows;
      }
      wants = wanted(view);
      const keys = new Set(wants.map(({key}) => key));
      const best = this.drawn(view).at(-1);
      for (const [key, {want, abort}] of running) {
        const helps = contains(want, view) && (!best || fineness(best) < fineness({window: want}));
        if (!keys.has(key) && !helps) { abort.abort(); running.delete(key); }
      }
      // A picture ahead gives way to one that is needed now.
      const first = wants[0];
      if (running.size >= MOST_REQUESTS && !running.has(first.key) && !pictures.has(first.key)) {
        const ahead = [...running].find(([, {want}]) => want.is_ahead || want.level > 0);
        if (ahead) { ahead[1].abort.abort(); running.delete(ahead[0]); }
      }
      pump();
    },
    /** Returns the pictures to draw for a view, the coarse ones first, at most three. */
    drawn(view) {
      const meeting = [...pictures.values()].filter(({window: of}) => of.from < view.to && of.to > view.from && of.low < view.high && of.high > view.low);
      meeting.sort((one, other) => fineness(one) - fineness(other));
      // What is below one that has the whole view in it is not seen; what is as fine adds nothing.
      const covering = meeting.findLastIndex(({window}) => contains(window, view));
      const base = meeting[Math.max(covering, 0)];
      const finer = meeting.filter(of => of !== base && (covering < 0 || fineness(of) > fineness(base)));
      const is_enough = covering >= 0 && fineness(base) >= fineness({window: wants[0] ?? base.window});
      const seen = base ? [base, ...(is_enough ? [] : finer.slice(-2))] : [];
      if (base && pictures.delete(base.key)) pictures.set(base.key, base);
      last_drawn = seen.at(-1) ?? null;
      return seen;
    },
    /** Returns the picture of everything, or undefined. */
    whole: () => pictures.get("0/0/0/0"),
    /** Paints all pictures again, because the page became light or dark. */
    repaint() {
      for (const picture of pictures.values()) {
        painter.paint(picture, look()).then(bitmap => {
          if (pictures.get(picture.key) !== picture) return bitmap.close();
          picture.bitmap.close();
          picture.bitmap = bitmap;
          arrived(picture);
        });
      }
    },
    is_busy: () => running.size > 0,
    count: () => pictures.size,
  };
}
