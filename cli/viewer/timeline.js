// The timeline: blocks as bands over events or time, the curves above them, and the cursor.

import {clamp} from "./app.js";
import {token} from "./colours.js";
import {create as create_minimap} from "./minimap.js";
import {create as create_tiles} from "./tiles.js";
import {create as create_tip} from "./tip.js";
import {listen} from "./gestures.js";
import {bytes, element, number} from "./text.js";
import * as curves from "./curves.js";
import * as picture_of from "./picture.js";
import * as ruler from "./ruler.js";

const LEFT = 78;
const BOTTOM = 24;
const HEADROOM = 1.04;
const MOST_FRAMES = 300;
const INKS = ["ground", "surface", "raised", "text", "quiet", "edge", "strong-edge", "grid", "rest", "chosen", "accent", "allocated", "active", "reserved", "limit", "cursor", "whatif", "marker"];

/** Returns the view of the timeline. */
export function create(app) {
  const base = element("canvas");
  const surface = element("canvas", "surface");
  surface.tabIndex = 0;
  surface.setAttribute("role", "application");
  surface.setAttribute("aria-label", "Timeline of memory. Arrows pan, plus and minus zoom, brackets step through events, Enter pins the largest block at the cursor, question mark lists all keys.");
  surface.setAttribute("aria-describedby", "totals");
  const hint = element("div", "hint");
  hint.hidden = true;
  const plot = element("div", "plot", null, [base, surface, hint]);
  const minimap = create_minimap((from, to) => move(from * tiles.span(), to * tiles.span()));
  const root = element("div", "timeline", null, [minimap.element, plot]);
  const tip = create_tip(app, plot);
  const frames = [];
  let inks = null;
  let rest = [0, 0, 0];
  let [is_shown, is_base_dirty, is_planned] = [false, true, false];
  let hovered = null;
  let brushed = null;
  let direction = 1;
  let ready = null;

  const tiles = create_tiles(app, {
    arrived(picture) {
      if (picture === tiles.whole()) paint_minimap();
      dirty();
      ready?.();
    },
    failed(text) {
      app.announce(text);
      ready?.();
    },
    rest: () => rest,
  });

  // What is seen, and where.

  const most_bytes = () => Math.max(tiles.top(), app.device().limit_bytes ?? 0) * HEADROOM;
  const view = () => {
    const [from, to] = app.state.range ?? [0, tiles.span()];
    const [low, high] = app.state.vertical ?? [0, tiles.top() * HEADROOM];
    return {from, to: Math.min(to, tiles.span()), low, high, direction};
  };
  const n_depths = () => Math.min(ruler.MOST_DEPTHS, Math.max(0, ...app.device().scopes.map(({depth}) => depth + 1)));
  let depths = 0;
  const box = () => {
    const top = ruler.MARKS_HEIGHT + depths * ruler.SCOPE_HEIGHT;
    return {left: LEFT, top, width: Math.max(10, plot.clientWidth - LEFT), height: Math.max(10, plot.clientHeight - top - BOTTOM)};
  };
  const geometry = () => {
    const [of, at] = [view(), box()];
    return {
      view: of, box: at, inks,
      x: place => at.left + ((place - of.from) / (of.to - of.from)) * at.width,
      y: count => at.top + at.height * (1 - (count - of.low) / (of.high - of.low)),
      place_of: left => of.from + ((left - at.left) / at.width) * (of.to - of.from),
      bytes_of: top => of.low + (1 - (top - at.top) / at.height) * (of.high - of.low),
    };
  };

  // Where a moment is on the axis. Times between the columns of a picture are estimated.
  const place = moment => {
    if (app.state.axis === "events") return moment + 0.5;
    const exact = app.times.get(moment);
    if (exact !== undefined) return exact - (app.device().first_us ?? 0);
    const picture = tiles.drawn(view()).at(-1);
    return picture ? between(picture, moment) : 0;
  };
  const moment_at = spot => {
    const last = app.device().n_events;
    if (app.state.axis === "events") return clamp(Math.floor(spot), 0, last);
    const picture = tiles.drawn(view()).at(-1);
    return picture ? clamp(picture.moments[picture_of.column_at(picture, spot)], 0, last) : 0;
  };

  const move = (from, to) => {
    const most = tiles.span();
    const least = app.state.axis === "events" ? Math.min(8, most) : Math.min(10, most);
    const width = clamp(to - from, least, most);
    const start = clamp(from, 0, most - width);
    direction = start < view().from ? -1 : 1;
    app.set({range: width >= most ? null : [start, start + width]});
  };
  const lift = (low, high) => {
    const most = most_bytes();
    const height = clamp(high - low, Math.min(4096, most), most);
    const start = clamp(low, 0, most - height);
    const whole = tiles.top() * HEADROOM;
    app.set({vertical: start === 0 && Math.abs(height / whole - 1) < 1e-6 ? null : [start, start + height]});
  };
  const zoom = (factor, at = 0.5) => {
    const {from, to} = view();
    const middle = from + (to - from) * at;
    move(middle - (middle - from) * factor, middle + (to - middle) * factor);
  };
  const zoom_bytes = (factor, at = 0.5) => {
    const {low, high} = view();
    const middle = low + (high - low) * at;
    lift(middle - (middle - low) * factor, middle + (high - middle) * factor);
  };
  const pan = part => { const {from, to} = view(); move(from + (to - from) * part, to + (to - from) * part); };
  const pan_bytes = part => { const {low, high} = view(); lift(low + (high - low) * part, high + (high - low) * part); };

  // Painting. A frame draws bitmaps that are there; nothing is decoded or asked for in it.

  const dirty = (is_base = true) => {
    is_base_dirty ||= is_base;
    if (!is_planned && is_shown) { is_planned = true; requestAnimationFrame(frame); }
  };
  const frame = () => {
    is_planned = false;
    if (!is_shown || !inks) return;
    const start = performance.now();
    if (app.file()?.state === "reading") paint_reading();
    else if (app.device()) {
      const of = geometry();
      if (is_base_dirty) paint_base({...of, context: prepare(base)});
      paint_surface({...of, context: prepare(surface)});
    }
    is_base_dirty = false;
    frames.push(performance.now() - start);
    if (frames.length > MOST_FRAMES) frames.shift();
  };
  const prepare = canvas => {
    const ratio = devicePixelRatio || 1;
    const [width, height] = [Math.round(plot.clientWidth * ratio), Math.round(plot.clientHeight * ratio)];
    if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = `11px ${inks.font}`;
    return context;
  };
  const paint_base = of => {
    const device = app.device();
    const drawn = tiles.drawn(of.view);
    ruler.paint_bytes(of);
    for (const picture of drawn) paint_picture(of, picture);
    if (drawn.length) curves.paint(of, drawn.at(-1));
    for (const points of app.curves.values()) curves.paint_points(of, points, place, inks.whatif);
    curves.paint_limit(of, device.limit_bytes);
    ruler.paint_axis(of, app.state.axis === "time");
    ruler.paint_scopes(of, device.scopes, place);
    ruler.paint_markers(of, device.markers, place);
    curves.paint_names(of, [...app.curves.keys()]);
    minimap.place(of.view.from / tiles.span(), of.view.to / tiles.span());
    hint.hidden = drawn.length > 0 && !drawn.at(-1).is_stale && !tiles.is_busy();
    hint.textContent = drawn.length ? "Asking for more detail…" : "Asking for the picture…";
  };
  // Only the part of the bitmap that is seen is drawn.
  const paint_picture = ({context, view, box, x, y}, picture) => {
    const [from, to] = [Math.max(view.from, picture.from), Math.min(view.to, picture.to)];
    const [low, high] = [Math.max(view.low, picture.low), Math.min(view.high, picture.high)];
    if (from >= to || low >= high) return;
    const across = picture.n_columns / (picture.to - picture.from);
    const up = picture.n_rows / (picture.high - picture.low);
    context.imageSmoothingEnabled = false;
    context.drawImage(picture.bitmap, (from - picture.from) * across, (picture.high - high) * up, (to - from) * across, (high - low) * up, x(from), y(high), x(to) - x(from), y(low) - y(high));
  };
  const paint_reading = () => {
    const {coarse, read} = app.file();
    const of = {context: prepare(base), box: {left: LEFT, top: 20, width: plot.clientWidth - LEFT - 10, height: plot.clientHeight - 50}, inks};
    if (coarse?.points?.length) curves.paint_coarse(of, coarse.points, read);
    prepare(surface);
    hint.hidden = false;
    hint.textContent = `Reading ${app.file().name}: ${Math.floor(100 * read)}%${coarse ? `, ${number(coarse.n_events)} events` : ""}. The height is relative to the beginning.`;
  };
  const paint_surface = of => {
    const {context, box, x} = of;
    context.save();
    context.beginPath();
    context.rect(box.left, 0, box.width, box.top + box.height);
    context.clip();
    const interval = brushed ?? app.state.interval?.map((moment, index) => place(moment) + (app.state.axis === "events" ? index - 0.5 : 0));
    if (interval) paint_interval(of, interval);
    const picture = tiles.drawn(of.view).at(-1);
    if (picture && app.state.life !== null) paint_life(of, picture, app.state.life, 2);
    if (picture && hovered && hovered.life !== app.state.life) paint_life(of, picture, hovered.life, 1);
    if (app.state.cursor !== null) {
      const left = Math.round(x(place(app.state.cursor)));
      context.fillStyle = inks.cursor;
      context.fillRect(left - 0.75, 0, 1.5, box.top + box.height);
      paint_cursor_totals(of, left);
    }
    context.restore();
  };
  const paint_interval = ({context, box, x}, [from, to]) => {
    context.fillStyle = inks.accent;
    context.globalAlpha = 0.16;
    context.fillRect(x(from), box.top, x(to) - x(from), box.height);
    context.globalAlpha = 1;
    context.fillRect(x(from), box.top, 1, box.height);
    context.fillRect(x(to) - 1, box.top, 1, box.height);
  };
  const paint_life = ({context, view, x, y}, picture, life, width) => {
    const found = picture_of.outline(picture, life);
    if (!found) return;
    const across = (picture.to - picture.from) / picture.n_columns;
    const up = (picture.high - picture.low) / picture.n_rows;
    const begin = clamp(Math.floor((view.from - picture.from) / across) - found.first, 0, found.lows.length);
    const end = clamp(Math.ceil((view.to - picture.from) / across) - found.first + 1, begin, found.lows.length);
    context.beginPath();
    const left = index => x(picture.from + (found.first + index) * across);
    const side = (rows, index) => y(picture.low + rows[index] * up);
    for (let start = begin; start < end;) {
      if (found.lows[start] < 0) { start += 1; continue; }
      let stop = start;
      while (stop < end && found.lows[stop] >= 0) stop += 1;
      context.moveTo(left(start), side(found.highs, start));
      for (let index = start; index < stop; index++) {
        if (index > start && found.highs[index] !== found.highs[index - 1]) context.lineTo(left(index), side(found.highs, index));
        if (index + 1 === stop || found.highs[index + 1] !== found.highs[index]) context.lineTo(left(index + 1), side(found.highs, index));
      }
      for (let index = stop - 1; index >= start; index--) {
        if (index + 1 === stop || found.lows[index + 1] !== found.lows[index]) context.lineTo(left(index + 1), side(found.lows, index));
        if (index === start || found.lows[index - 1] !== found.lows[index]) context.lineTo(left(index), side(found.lows, index));
      }
      context.closePath();
      start = stop;
    }
    context.lineJoin = "round";
    context.strokeStyle = inks.ground;
    context.lineWidth = width + 2;
    context.stroke();
    context.strokeStyle = inks.text;
    context.lineWidth = width;
    context.stroke();
  };
  const paint_cursor_totals = ({context, box}, left) => {
    const totals = app.totals;
    if (!totals || totals.moment !== app.state.cursor) return;
    const text = `${bytes(totals.active_bytes)} active, ${bytes(totals.reserved_bytes)} reserved`;
    const width = context.measureText(text).width + 10;
    const from = left + width + 6 > box.left + box.width ? left - width - 4 : left + 4;
    const top = box.top + box.height - 22;
    context.fillStyle = inks.cursor;
    context.fillRect(from, top, width, 17);
    context.fillStyle = inks.ground;
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.fillText(text, from + 5, top + 9);
  };
  const paint_minimap = () => {
    const picture = tiles.whole();
    if (picture && inks && is_shown) minimap.paint(picture, tiles.top(), inks, LEFT);
  };

  // What is under the pointer.

  const under = ({left, top}) => {
    const of = geometry();
    const spot = of.place_of(left);
    const picture = tiles.drawn(of.view).at(-1);
    if (!picture || left < of.box.left) return null;
    return {picture, spot, ...picture_of.cell_at(picture, clamp(spot, picture.from, picture.to), of.bytes_of(top))};
  };
  const hover = at => {
    if (!app.device() || app.file().state !== "ready") return;
    const of = geometry();
    if (at.top < of.box.top && at.left >= of.box.left) {
      const found = ruler.text_at(of, app.device(), place, at.left, at.top);
      if (found) tip.text(found.text, `moment ${number(found.moment ?? found.from)}`, at.left, at.top);
      else tip.hide();
      return set_hovered(null);
    }
    const cell = at.top < of.box.top + of.box.height ? under(at) : null;
    if (!cell) tip.hide();
    else if (cell.life !== null) tip.block(cell, at.left, at.top);
    else {
      const {picture, column, value} = cell;
      const name = value === picture_of.REST ? "Blocks too small to draw here, or filtered out" : `Active ${bytes(picture.active_max[column])}`;
      tip.text(name, `allocated ${bytes(picture.allocated_max[column])}, reserved ${bytes(picture.reserved_max[column])}, moment ${number(picture.moments[column])}`, at.left, at.top);
    }
    set_hovered(cell?.life != null ? cell : null);
  };
  const set_hovered = cell => {
    if (hovered?.life === cell?.life) return;
    hovered = cell;
    dirty(false);
  };
  const click = at => {
    if (!app.device()) return;
    const of = geometry();
    if (at.left < of.box.left) return;
    if (at.top < of.box.top) {
      const found = ruler.text_at(of, app.device(), place, at.left, at.top);
      if (found?.moment !== undefined) return app.goto(found.moment);
      if (found) return app.set({interval: [found.from, found.until]});
    }
    const cell = under(at);
    app.set({cursor: moment_at(of.place_of(at.left)), ...(cell?.life != null ? {life: cell.life} : {})});
  };
  const brush = (left, right, is_done) => {
    const of = geometry();
    const ends = [left, right].map(at => of.place_of(clamp(at, of.box.left, of.box.left + of.box.width))).sort((one, other) => one - other);
    brushed = is_done ? null : ends;
    if (is_done) app.set({interval: [moment_at(ends[0]), Math.max(moment_at(ends[1]), moment_at(ends[0]) + 1)]});
    dirty(false);
  };

  listen(surface, {
    hover, click, brush,
    leave() { tip.hide(); set_hovered(null); },
    fit(at) { const cell = under(at); if (cell?.life != null) app.source.block({...app.query(), life: cell.life}).then(app.show_life, () => {}); },
    drag(is_dragged) { surface.classList.toggle("dragged", is_dragged); },
    pan(across, up) {
      const of = geometry();
      if (across) pan(-across / of.box.width);
      if (up && app.state.vertical) pan_bytes(up / of.box.height);
    },
    zoom(at, factor, is_vertical) {
      const of = geometry();
      if (is_vertical) zoom_bytes(factor, clamp(1 - (at.top - of.box.top) / of.box.height, 0, 1));
      else zoom(factor, clamp((at.left - of.box.left) / of.box.width, 0, 1));
    },
  });

  // Pins the largest block at the cursor, or the one above or below the pinned one there.
  const pin_at_cursor = step => {
    const spot = place(app.moment());
    const picture = tiles.drawn({...view(), from: spot, to: spot + 1e-9}).at(-1);
    if (!picture) return;
    const found = picture_of.blocks_of(picture, picture_of.column_at(picture, spot));
    if (!found.length) return app.announce("No block is large enough here; zoom in.");
    const index = found.findIndex(({life}) => life === app.state.life);
    const largest = found.reduce((best, of) => (of.bytes > best.bytes ? of : best));
    const chosen = step === 0 || index < 0 ? largest : found[clamp(index + step, 0, found.length - 1)];
    app.set({cursor: app.moment(), life: chosen.life});
  };

  /** Zooms to the life of a block, in the timeline. */
  app.show_life = block => {
    app.set({view: "timeline", life: block.life});
    const [from, to] = [place(block.from), place(block.until ?? app.device().n_events)];
    const margin = Math.max((to - from) * 0.15, 4);
    move(from - margin, to + margin);
  };

  // The cursor that was moved by a key or a link is brought into view.
  const follow = () => {
    if (app.state.cursor === null) return;
    const {from, to} = view();
    const spot = place(app.state.cursor);
    if (spot < from || spot > to) move(spot - (to - from) / 2, spot + (to - from) / 2);
  };

  const keys = [
    [["ArrowLeft", "ArrowRight"], "Pan", key => pan(key === "ArrowLeft" ? -0.1 : 0.1)],
    [["Shift+ArrowLeft", "Shift+ArrowRight"], "Step one event", key => app.goto(app.moment() + (key.endsWith("Left") ? -1 : 1))],
    [["ArrowUp", "ArrowDown"], "Pan in height", key => pan_bytes(key === "ArrowUp" ? 0.1 : -0.1)],
    [["Shift+ArrowUp", "Shift+ArrowDown"], "Zoom in height", key => zoom_bytes(key.endsWith("Up") ? 0.8 : 1.25, 0)],
    [["+", "=", "-"], "Zoom around the cursor", key => {
      const {from, to} = view();
      const spot = app.state.cursor === null ? 0.5 : (place(app.state.cursor) - from) / (to - from);
      zoom(key === "-" ? 1.4 : 1 / 1.4, spot >= 0 && spot <= 1 ? spot : 0.5);
    }],
    [["Home", "End"], "The beginning or the end", key => { const {from, to} = view(); if (key === "Home") move(0, to - from); else move(tiles.span() - (to - from), tiles.span()); }],
    [["0"], "Show everything", () => app.set({range: null, vertical: null})],
    [["Enter"], "Pin the largest block at the cursor", () => pin_at_cursor(0)],
    [["PageUp", "PageDown"], "Pin the block above or below at the cursor", key => pin_at_cursor(key === "PageUp" ? 1 : -1)],
    [["f"], "Show the life of the pinned block", async () => { if (app.state.life !== null) app.show_life(await app.source.block({...app.query(), life: app.state.life})); }],
    [["b"], "Mark the visible interval for the stacks, or remove the mark", () => { const {from, to} = view(); app.set({interval: app.state.interval ? null : [moment_at(from), moment_at(to)]}); }],
  ];

  const refresh_inks = () => {
    inks = {font: getComputedStyle(document.body).fontFamily};
    for (const name of INKS) inks[name.replace("strong-edge", "strong")] = token(`--${name}`);
    rest = (inks.rest.match(/[\d.]+/g) ?? [128, 128, 128]).slice(0, 3).map(Number);
    tiles.repaint();
  };
  const want = () => {
    if (!app.device() || app.file().state !== "ready") return;
    const n_rows = box().height * (devicePixelRatio || 1) > 700 || app.state.vertical ? 768 : 512;
    tiles.want(view(), n_rows);
  };
  new ResizeObserver(() => {
    if (!is_shown) return;
    paint_minimap();
    want();
    dirty();
  }).observe(plot);

  return {
    element: root, keys,
    /** Shows the view; the promise is kept when the first picture is painted. */
    async show() {
      is_shown = true;
      if (!inks) refresh_inks();
      minimap.element.hidden = !app.device() || app.file().state !== "ready";
      if (app.device() && app.file().state === "ready") {
        depths = n_depths();
        const is_first = !tiles.whole();
        const arrival = is_first ? new Promise(kept => { ready = kept; }) : null;
        want();
        dirty();
        await arrival;
        ready = null;
        follow();
        paint_minimap();
      }
      dirty();
      await new Promise(kept => requestAnimationFrame(kept));
    },
    hide() {
      is_shown = false;
      tip.hide();
    },
    update(changed) {
      if (changed.has("theme")) { refresh_inks(); paint_minimap(); }
      if (changed.has("cursor")) follow();
      if (["range", "vertical", "colour", "filters", "search", "axis"].some(key => changed.has(key))) want();
      dirty(["range", "vertical", "colour", "filters", "search", "axis", "theme", "curves", "totals"].some(key => changed.has(key)));
    },
    stats: () => ({frames_ms: frames.slice(), n_pictures: tiles.count()}),
    canvas: () => base,
  };
}

// The place of a moment between the columns of a picture.
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
