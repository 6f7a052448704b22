// The windows of the timeline: which pictures a view needs, which are here, and which are asked for.

import {decode} from "./picture.js";
import {create as create_painter} from "./painter.js";
import {Refusal} from "./source.js";
import {create as create_windows} from "./windows.js";
import {reason_of} from "./text.js";

const MOST_BYTES = 40e6;
const MOST_REQUESTS = 2;

/** @param {{window: Cut}} of */
const fineness = ({window}) => window.level + window.rise;

/**
 * Returns the tiles of a timeline. `arrived(picture)` is called for each picture, `failed(text)` for each refusal;
 * `rest()` returns the colour of what is not drawn block by block.
 * @param {App} app @param {{arrived(picture: Tile): void, failed(text: string): void, rest(): number[]}} on
 */
export function create(app, {arrived, failed, rest}) {
  const painter = create_painter();
  /** @type {Map<string, Tile>} */
  const pictures = new Map(); // key → picture, the least recently used first
  /** @type {Map<string, {want: Cut, abort: AbortController}>} */
  const running = new Map(); // key → {want, abort}
  /** @type {Set<string>} */
  const refused = new Set();
  /** @type {Cut[]} */
  let wants = [];
  let meaning = "";
  let rows = 512;
  /** @type {Tile | null} */
  let last_drawn = null;

  const windows = create_windows(app);
  const {span, top, contains} = windows;

  const pump = () => {
    for (const want of wants) {
      if (running.size >= MOST_REQUESTS) return;
      if (pictures.get(want.key)?.is_stale === false) continue;
      if (running.has(want.key) || refused.has(want.key)) continue;
      ask(want);
    }
  };

  /** @param {Cut} want */
  const ask = async want => {
    const abort = new AbortController();
    const of = meaning;
    running.set(want.key, {want, abort});
    const {axis, colour} = app.state;
    const params = {...app.filtered(), axis, level: want.level, index: want.index, rise: want.rise, shelf: want.shelf, rows, colour};
    try {
      const picture = decode(await app.source.picture(params, {signal: abort.signal}));
      const bitmap = await painter.paint(picture, look());
      if (of === meaning) keep(Object.assign(picture, {bitmap, key: want.key, window: want, is_stale: false}));
      else bitmap.close();
    } catch (error) {
      if (of === meaning && !(error instanceof Error && error.name === "AbortError")) {
        if (error instanceof Refusal || !(error instanceof TypeError)) refused.add(want.key);
        failed(reason_of(error));
      }
    }
    if (running.get(want.key)?.abort === abort) running.delete(want.key);
    pump();
  };

  const look = () => ({kind: app.state.colour, rest: rest(), is_searched: app.state.search !== ""});

  /** @param {Tile} picture */
  const drop = picture => {
    if (pictures.get(picture.key) === picture) pictures.delete(picture.key);
    picture.bitmap.close();
  };

  /** @param {Tile} picture */
  const keep = picture => {
    // Pictures with other colours were shown until now.
    for (const old of [...pictures.values()]) if (old.is_stale || old.key === picture.key) drop(old);
    pictures.set(picture.key, picture);
    shrink();
    arrived(picture);
  };

  /** @param {Picture} picture */
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
    /**
     * Asks for what a view needs and aborts what no view needs any more.
     * @param {Extent & {direction: number}} view @param {number} n_rows
     */
    want(view, n_rows) {
      const {axis, colour, search} = app.state;
      const shape = JSON.stringify([app.query(), axis, app.shown().n_events]);
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
      wants = windows.wanted(view);
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
    /**
     * Returns the pictures to draw for a view, the coarse ones first, at most three.
     * @param {Extent} view
     */
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
    /** Returns whether something that the view needs now is on its way. */
    is_waiting: () => wants.length > 0 && running.has(wants[0].key),
    count: () => pictures.size,
  };
}
