// The ruler of the timeline: ticks of both axes, the scopes, and the markers of peaks, failures and snapshots.

import {number, plain, tick_bytes} from "./text.js";

export const MARKS_HEIGHT = 16;
export const SCOPE_HEIGHT = 16;
export const MOST_DEPTHS = 3;
const SYMBOLS = {oom: "✖", peak: "▲", snapshot: "◆", end: "■"};

/**
 * Paints the lines and numbers of bytes at the left.
 * @param {Painting} of
 */
export function paint_bytes({context, box, view, y, inks}) {
  const step = nice(view.high - view.low, Math.max(2, box.height / 60), 2);
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (let count = Math.ceil(view.low / step) * step; count <= view.high; count += step) {
    const at = Math.round(y(count));
    context.fillStyle = inks.grid;
    context.fillRect(box.left, at, box.width, 1);
    context.fillStyle = inks.quiet;
    context.fillText(tick_bytes(count), box.left - 6, Math.min(at, box.top + box.height - 5));
  }
}

/**
 * Paints the ticks of the axis below the plot.
 * @param {Painting} of @param {boolean} is_time
 */
export function paint_axis({context, box, view, x, inks}, is_time) {
  const step = Math.max(is_time ? 1e-3 : 1, nice(view.to - view.from, Math.max(2, box.width / 110), 10));
  const at = box.top + box.height;
  context.textBaseline = "top";
  context.textAlign = "center";
  // An event is where the moment after it is.
  const shift = is_time ? 0 : 1.5;
  for (let place = Math.max(0, Math.ceil((view.from - shift) / step) * step); place + shift <= view.to; place += step) {
    const left = Math.round(x(place + shift));
    context.fillStyle = inks.strong;
    context.fillRect(left, at, 1, 5);
    context.fillStyle = inks.quiet;
    const text = is_time ? time(place, step, view.to) : number(place);
    const half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(Math.max(left, box.left + half), box.left + box.width - half), at + 7);
  }
  context.textAlign = "right";
  context.fillText(is_time ? "time" : "event", box.left - 6, at + 7);
}

/**
 * Paints the scopes that meet the view, each depth in its row.
 * @param {Painting} of @param {Scope[]} scopes @param {(moment: number) => number} place
 */
export function paint_scopes({context, box, view, x, inks}, scopes, place) {
  const ends = new Float64Array(MOST_DEPTHS).fill(-1);
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (const {name, from, until, depth} of scopes) {
    if (depth >= MOST_DEPTHS) continue;
    const [first, last] = [place(from), place(until)];
    if (last < view.from || first > view.to) continue;
    const left = Math.max(x(first), box.left);
    const right = Math.min(x(last), box.left + box.width);
    // Scopes within a pixel of one that is painted are not seen.
    if (right < ends[depth] + 0.7) continue;
    ends[depth] = right;
    const top = MARKS_HEIGHT + depth * SCOPE_HEIGHT;
    context.fillStyle = depth % 2 ? inks.raised : inks.chosen;
    context.fillRect(left, top, Math.max(right - left, 0.7), SCOPE_HEIGHT - 2);
    context.fillStyle = inks.strong;
    context.fillRect(left, top, 1, SCOPE_HEIGHT - 2);
    if (right - left < 26) continue;
    context.fillStyle = inks.text;
    context.fillText(cut(context, plain(name, 100), right - left - 8), left + 5, top + SCOPE_HEIGHT / 2 - 1);
  }
}

// The width of a symbol, which no other one may cover.
const SYMBOL = 14;

// Where the symbols of the markers are: failures at their places, the others beside them. Of snapshots at one place, one is shown.
/** @param {Geometry} of @param {Marker[]} markers @param {(moment: number) => number} place */
function symbols({box, view, x}, markers, place) {
  /** @type {{marker: Marker, line: number, left: number}[]} */
  const shown = [];
  const most = box.left + box.width - SYMBOL / 2;
  /** @param {number} left */
  const is_free = left => shown.every(of => Math.abs(of.left - left) >= SYMBOL);
  for (const kind of ["oom", "peak", "snapshot"]) {
    for (const marker of markers) {
      const at = place(marker.moment);
      if (marker.kind !== kind || at < view.from || at > view.to) continue;
      const line = Math.round(x(at));
      const left = Math.min(Math.max(line, box.left + SYMBOL / 2), most);
      const free = kind === "peak" ? [left, left - SYMBOL, left + SYMBOL, left - 2 * SYMBOL].find(is_free) : left;
      if (kind !== "peak" && shown.some(of => of.marker.kind === kind && Math.abs(of.line - line) < 1)) continue;
      shown.push({marker, line, left: free ?? left});
    }
  }
  return shown;
}

/**
 * Paints the markers above the plot, and a line down for peaks and failures.
 * @param {Painting} of @param {Marker[]} markers @param {(moment: number) => number} place
 */
export function paint_markers(of, markers, place) {
  const {context, box, inks} = of;
  context.save();
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = `13px ${inks.font}`;
  // Failures are painted last.
  const all = symbols(/** @type {Geometry} */ (of), markers, place);
  for (const {marker: {kind}, line, left} of all.reverse()) {
    context.fillStyle = kind === "oom" ? inks.limit : inks.marker;
    if (kind === "oom" || kind === "peak") {
      context.globalAlpha = 0.55;
      context.fillRect(line, MARKS_HEIGHT, 1, box.top + box.height - MARKS_HEIGHT);
      context.globalAlpha = 1;
    }
    context.fillText(SYMBOLS[kind] ?? "●", left, MARKS_HEIGHT / 2);
  }
  // A single failure has its name beside it, on the side that has room.
  const failures = all.filter(({marker}) => marker.kind === "oom");
  if (failures.length === 1) {
    const near = all.map(({left}) => left).filter(left => Math.abs(left - failures[0].left) < 3 * SYMBOL);
    const is_right = failures[0].left > box.left + box.width / 2;
    const from = is_right ? Math.min(...near) - 10 : Math.max(...near) + 10;
    context.font = `600 11px ${inks.font}`;
    context.textAlign = is_right ? "right" : "left";
    context.fillStyle = inks.limit;
    if (all.every(({left}) => near.includes(left) || Math.abs(left - from) > 100)) context.fillText("out of memory", from, MARKS_HEIGHT / 2);
  }
  context.restore();
}

/**
 * Returns the marker or scope at a point above the plot as text, or null.
 * @param {Geometry} of @param {Device} device @param {(moment: number) => number} place
 * @param {number} left @param {number} top
 * @returns {{text: string, moment: number} | {text: string, moment?: undefined, from: number, until: number} | null}
 */
export function text_at(of, device, place, left, top) {
  const {box, view} = of;
  if (top < MARKS_HEIGHT) {
    /** @type {{far: number, text: string, moment: number} | null} */
    let best = null;
    for (const {marker, left: at} of symbols(of, device.markers, place)) {
      const far = Math.abs(at - left);
      if (far < 8 && (!best || far < best.far)) best = {far, text: `${marker.kind}: ${marker.text}`, moment: marker.moment};
    }
    return best;
  }
  const depth = Math.floor((top - MARKS_HEIGHT) / SCOPE_HEIGHT);
  const at = view.from + ((left - box.left) / box.width) * (view.to - view.from);
  const scope = device.scopes.find(of => of.depth === depth && place(of.from) <= at && place(of.until) > at);
  return scope ? {text: scope.name, from: scope.from, until: scope.until} : null;
}

// A time in the unit of the largest, with the digits in which neighbouring ticks differ.
/** @param {number} place @param {number} step @param {number} most */
function time(place, step, most) {
  const [unit, name] = most >= 1e6 ? [1e6, "s"] : most >= 1e3 ? [1e3, "ms"] : [1, "µs"];
  const digits = Math.min(Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9)), 9);
  return `${(place / unit).toFixed(digits)} ${name}`;
}

/** @param {CanvasRenderingContext2D} context @param {string} text @param {number} width */
function cut(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let length = Math.max(0, Math.floor(text.length * width / context.measureText(text).width) - 1);
  while (length > 0 && context.measureText(text.slice(0, length) + "…").width > width) length -= 1;
  return length > 0 ? text.slice(0, length) + "…" : "";
}

// A step of 1, 2 or 5 times a power of ten, or a power of two, of which about `most` fit.
/** @param {number} extent @param {number} most @param {number} base */
function nice(extent, most, base) {
  const rough = extent / most;
  if (base === 2) return 2 ** Math.max(0, Math.ceil(Math.log2(rough)));
  const power = 10 ** Math.floor(Math.log10(rough));
  return ([1, 2, 5].find(of => of * power >= rough) ?? 10) * power;
}
