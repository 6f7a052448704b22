// Which part of the history the timeline shows, and how moments and bytes become pixels and back.

import {clamp} from "./app.js";
import {column_at} from "./picture.js";
import {MARKS_HEIGHT, MOST_DEPTHS, SCOPE_HEIGHT} from "./ruler.js";

export const LEFT = 78;
const BOTTOM = 24;
const HEADROOM = 1.04;
const LEAST_BYTES = 4096;

/**
 * Returns the lens over a plot of a size ({width, height}). The part that is shown is `range` and `vertical` of the app's state.
 * @param {App} app @param {Tiles} tiles @param {Size} size
 */
export function create(app, tiles, size) {
  let direction = 1;

  const view = () => {
    const [from, to] = app.state.range ?? [0, tiles.span()];
    const [low, high] = app.state.vertical ?? [0, tiles.top() * HEADROOM];
    return {from, to: Math.min(to, tiles.span()), low, high, direction};
  };
  const box = () => {
    const depths = app.shown().scopes.reduce((most, {depth}) => Math.max(most, depth + 1), 0);
    const top = MARKS_HEIGHT + Math.min(depths, MOST_DEPTHS) * SCOPE_HEIGHT;
    return {left: LEFT, top, width: Math.max(10, size.width - LEFT), height: Math.max(10, size.height - top - BOTTOM)};
  };

  /** Returns what a frame needs: the view, the box of the plot, the pictures that are here, and the ways between all units. */
  const geometry = () => {
    const [of, at] = [view(), box()];
    const drawn = tiles.drawn(of);
    const picture = drawn.at(-1);
    const is_time = app.state.axis === "time";
    return {
      view: of, box: at, drawn, picture,
      /** @param {number} place */
      x: place => at.left + ((place - of.from) / (of.to - of.from)) * at.width,
      /** @param {number} count */
      y: count => at.top + at.height * (1 - (count - of.low) / (of.high - of.low)),
      /** @param {number} left */
      place_of: left => of.from + ((left - at.left) / at.width) * (of.to - of.from),
      /** @param {number} top */
      bytes_of: top => of.low + (1 - (top - at.top) / at.height) * (of.high - of.low),
      // Where a moment is on the axis. Times between the columns of a picture are estimated.
      /** @param {number} moment */
      place(moment) {
        if (!is_time) return moment + 0.5;
        const exact = app.times.get(moment);
        if (exact !== undefined) return exact - (app.shown().first_us ?? 0);
        return picture ? between(picture, moment) : 0;
      },
      /** @param {number} place */
      moment_at(place) {
        const last = app.shown().n_events;
        if (!is_time) return clamp(Math.floor(place), 0, last);
        return picture ? clamp(picture.moments[column_at(picture, place)], 0, last) : 0;
      },
    };
  };

  /** @param {number} from @param {number} to */
  const move = (from, to) => {
    const most = tiles.span();
    const width = clamp(to - from, Math.min(8, most), most);
    const start = clamp(from, 0, most - width);
    direction = start < view().from ? -1 : 1;
    app.set({range: width >= most ? null : [start, start + width]});
  };
  /** @param {number} low @param {number} high */
  const lift = (low, high) => {
    const whole = tiles.top() * HEADROOM;
    const most = Math.max(whole, (app.shown().limit_bytes ?? 0) * HEADROOM);
    const height = clamp(high - low, Math.min(LEAST_BYTES, most), most);
    const start = clamp(low, 0, most - height);
    app.set({vertical: start === 0 && Math.abs(height / whole - 1) < 1e-6 ? null : [start, start + height]});
  };
  // `at` is what stays where it is, as a fraction of the view.
  /** @param {number} factor */
  const zoom = (factor, at = 0.5) => {
    const {from, to} = view();
    const middle = from + (to - from) * at;
    move(middle - (middle - from) * factor, middle + (to - middle) * factor);
  };
  /** @param {number} factor */
  const zoom_bytes = (factor, at = 0.5) => {
    const {low, high} = view();
    const middle = low + (high - low) * at;
    lift(middle - (middle - low) * factor, middle + (high - middle) * factor);
  };

  return {
    view, box, geometry, move, zoom, zoom_bytes,
    /**
     * Moves by a fraction of the view.
     * @param {number} part
     */
    pan(part) {
      const {from, to} = view();
      move(from + (to - from) * part, to + (to - from) * part);
    },
    /** @param {number} part */
    pan_bytes(part) {
      const {low, high} = view();
      lift(low + (high - low) * part, high + (high - low) * part);
    },
    /** Brings the cursor into the view. */
    follow() {
      if (app.state.cursor === null) return;
      const {view: {from, to}, place} = geometry();
      const spot = place(app.state.cursor);
      if (spot < from || spot > to) move(spot - (to - from) / 2, spot + (to - from) / 2);
    },
    /**
     * Shows a part of the history on the axis of the state.
     * @param {number} from @param {number} until
     */
    show(from, until) {
      const {place} = geometry();
      const margin = Math.max((place(until) - place(from)) * 0.15, 4);
      move(place(from) - margin, place(until) + margin);
    },
  };
}

/**
 * Changes the axis and keeps the part of the history that is shown.
 * @param {App} app @param {Axis} axis
 */
export async function change_axis(app, axis) {
  const {range} = app.state;
  if (axis === app.state.axis) return;
  if (axis === "time" && (app.device()?.first_us ?? null) === null) return app.announce("This history has no timestamps.");
  if (!range) return app.set({axis});
  const first = app.shown().first_us ?? 0;
  const [start, end] = await Promise.all(range.map(place => (axis === "time"
    ? app.source.totals({...app.query(), moment: clamp(Math.round(place), 0, app.shown().n_events)}).then(({time_us}) => time_us === null ? 0 : time_us - first)
    : app.source.moment({...app.query(), time_us: Math.round(first + place)}).then(({moment}) => moment))));
  // Events at one time have no extent on the other axis.
  app.set({axis, range: start < end ? [start, end] : null});
}

// The place of a moment between the columns of a picture.
/** @param {Picture} of @param {number} moment */
function between({moments, n_columns, from, to}, moment) {
  let [low, high] = [0, n_columns];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (moments[middle] < moment) low = middle + 1;
    else high = middle;
  }
  const width = (to - from) / n_columns;
  if (low === n_columns) return moment > moments[n_columns - 1] ? to + width : to;
  if (low === 0) return moment < moments[0] ? from - width : from + width / 2;
  const part = (moment - moments[low - 1]) / Math.max(1, moments[low] - moments[low - 1]);
  return from + (low - 0.5 + part) * width;
}
