// The timeline: blocks as bands over events or time, the curves above them, and the cursor.

import {clamp} from "./app.js";
import {create as create_lens, LEFT} from "./lens.js";
import {create as create_minimap} from "./minimap.js";
import {create as create_tiles} from "./tiles.js";
import {create as create_tip} from "./tip.js";
import {listen} from "./gestures.js";
import {bytes, element, moment_words, number, plain, reason_of} from "./text.js";
import * as curves from "./curves.js";
import * as picture_of from "./picture.js";
import * as ruler from "./ruler.js";
import * as scene from "./scene.js";
import {keys_of} from "./timeline_keys.js";

const MOST_FRAMES = 300;
const PAINTED = ["range", "vertical", "colour", "filters", "search", "axis", "theme", "curves"];

/**
 * Returns the view of the timeline.
 * @param {App} app @returns {View}
 */
export function create(app) {
  const base = element("canvas");
  base.setAttribute("aria-hidden", "true");
  const surface = element("canvas", "surface");
  surface.tabIndex = 0;
  surface.setAttribute("role", "application");
  surface.setAttribute("aria-label", "Memory timeline. Arrow keys pan, plus and minus zoom, brackets step through events, Enter pins the largest block at the cursor, and question mark lists all shortcuts.");
  surface.setAttribute("aria-describedby", "totals");
  const hint = element("div", "hint");
  hint.hidden = true;
  const plot = element("div", "plot", null, [base, surface, hint]);
  const minimap = create_minimap((from, to) => lens.move(from * tiles.span(), to * tiles.span()));
  const root = element("div", "timeline", null, [minimap.element, plot]);
  const tip = create_tip(app, plot);
  /** @type {number[]} */
  const frames = [];
  // A frame that asked the elements for their size would wait for the layout of the whole page.
  const size = {width: 0, height: 0};
  const measure = () => Object.assign(size, {width: plot.clientWidth, height: plot.clientHeight});
  let inks = scene.inks();
  let rest = rest_of(inks);
  let [is_shown, is_base_dirty, is_planned] = [false, true, false];
  /** @type {number | null} */
  let hovered = null;
  /** @type {number[] | null} */
  let brushed = null;
  /** @type {(() => void) | null} */
  let ready = null;

  const tiles = create_tiles(app, {
    /** @param {Picture} picture */
    arrived(picture) {
      if (picture === tiles.whole()) paint_minimap();
      dirty();
      ready?.();
    },
    /** @param {string} text */
    failed(text) {
      app.announce(text);
      ready?.();
    },
    rest: () => rest,
  });
  const lens = create_lens(app, tiles, size);
  const is_ready = () => app.device() !== null && app.file()?.state === "ready";

  // A frame draws bitmaps that are there; nothing is decoded or asked for in it.
  const dirty = (is_base = true) => {
    is_base_dirty ||= is_base;
    if (is_planned || !is_shown) return;
    is_planned = true;
    requestAnimationFrame(frame);
  };
  const frame = () => {
    is_planned = false;
    if (!is_shown) return;
    const start = performance.now();
    if (is_ready()) paint();
    else if (app.file()?.state === "reading") paint_reading();
    is_base_dirty = false;
    frames.push(performance.now() - start);
    if (frames.length > MOST_FRAMES) frames.shift();
  };
  const paint = () => {
    const of = lens.geometry();
    if (is_base_dirty) {
      scene.paint_base({...of, inks, context: scene.prepare(base, inks, size)}, app);
      minimap.place(of.view.from / tiles.span(), of.view.to / tiles.span());
      hint.hidden = of.drawn.length > 0 && !of.picture?.is_stale && !tiles.is_waiting();
      hint.textContent = of.drawn.length ? "Loading more detail…" : "Loading…";
    }
    scene.paint_surface({...of, inks, context: scene.prepare(surface, inks, size)}, app, {hovered, brushed});
  };
  const paint_reading = () => {
    const file = app.file();
    if (!file) return;
    const {coarse, read = 0, name} = file;
    const of = {context: scene.prepare(base, inks, size), box: {left: LEFT, top: 20, width: size.width - LEFT - 10, height: size.height - 50}, inks};
    if (coarse?.points?.length) curves.paint_coarse(of, coarse.points, read);
    hint.hidden = false;
    hint.textContent = `Reading ${plain(name, 80)}: ${Math.floor(100 * read)}%${coarse ? `, ${number(coarse.n_events)} events` : ""}. Until then, heights show the change since its start.`;
  };
  const paint_minimap = () => {
    const picture = tiles.whole();
    if (picture && is_shown && app.device()) minimap.paint(picture, tiles.top(), inks, LEFT);
  };

  // What is under the pointer.

  /** @param {Geometry} of @param {Spot} at */
  const under = (of, {left, top}) => {
    if (!of.picture || left < of.box.left || top < of.box.top || top > of.box.top + of.box.height) return null;
    const spot = clamp(of.place_of(left), of.picture.from, of.picture.to);
    return picture_of.cell_at(of.picture, spot, of.bytes_of(top));
  };
  /** @param {Geometry} of @param {Spot} at */
  const above = (of, {left, top}) => (top < of.box.top && left >= of.box.left ? ruler.text_at(of, app.shown(), of.place, left, top) : null);
  /** @param {Spot} at */
  const hover = at => {
    if (!is_ready()) return;
    const of = lens.geometry();
    const [mark, cell] = [above(of, at), under(of, at)];
    if (mark) tip.text(plain(mark.text), moment_words(mark.moment === undefined ? mark.from : mark.moment), at.left, at.top);
    else if (!cell) tip.hide();
    else if (cell.life !== null) tip.block(cell, at.left, at.top);
    else if (of.picture) describe(of.picture, cell, at);
    set_hovered(cell?.life ?? null);
  };
  /** @param {Picture} picture @param {Cell & {column: number}} cell @param {Spot} at */
  const describe = (picture, {column, value, sum}, {left, top}) => {
    const name = sum !== undefined ? `Small blocks of ${plain(app.group_name?.(sum) ?? "", 120)}` : value === picture_of.REST ? (app.source.is_offline ? "Blocks too small to draw here, or whose details were left out of the file" : "Blocks too small to draw here, or filtered out") : `Active ${bytes(picture.active_max[column])}`;
    tip.text(name, `allocated ${bytes(picture.allocated_max[column])}, reserved ${bytes(picture.reserved_max[column])}, ${moment_words(picture.moments[column])}`, left, top);
  };
  /** @param {number | null} life */
  const set_hovered = life => {
    if (hovered === life) return;
    hovered = life;
    dirty(false);
  };
  /** @param {Spot} at */
  const click = at => {
    if (!is_ready()) return;
    const of = lens.geometry();
    if (at.left < of.box.left) return;
    const mark = above(of, at);
    if (mark?.moment !== undefined) return app.goto(mark.moment);
    if (mark) return app.set({interval: [mark.from, mark.until]});
    const life = under(of, at)?.life ?? app.state.life;
    app.set({cursor: of.moment_at(of.place_of(at.left)), life});
  };
  /** @param {number} left @param {number} right @param {boolean} is_done */
  const brush = (left, right, is_done) => {
    if (!is_ready()) return;
    const of = lens.geometry();
    const ends = [left, right].map(at => of.place_of(clamp(at, of.box.left, of.box.left + of.box.width))).sort((one, other) => one - other);
    brushed = is_done ? null : ends;
    if (is_done) {
      const [from, until] = ends.map(of.moment_at);
      app.set({interval: [from, Math.max(until, from + 1)]});
    }
    dirty(false);
  };
  listen(surface, {
    hover, click, brush,
    leave() { tip.hide(); set_hovered(null); },
    fit(at) {
      const life = is_ready() ? under(lens.geometry(), at)?.life ?? null : null;
      if (life !== null) app.source.block({...app.query(), life}).then(app.show_life, error => app.announce(reason_of(error)));
    },
    /** @param {boolean} is_dragged */
    drag(is_dragged) { surface.classList.toggle("dragged", is_dragged); },
    /** @param {number} across @param {number} up */
    pan(across, up) {
      if (!is_ready()) return;
      const {width, height} = lens.box();
      if (across) lens.pan(-across / width);
      if (up && app.state.vertical) lens.pan_bytes(up / height);
    },
    /** @param {Spot} of @param {number} factor @param {boolean} is_vertical */
    zoom({left, top}, factor, is_vertical) {
      if (!is_ready()) return;
      const box = lens.box();
      if (is_vertical) lens.zoom_bytes(factor, clamp(1 - (top - box.top) / box.height, 0, 1));
      else lens.zoom(factor, clamp((left - box.left) / box.width, 0, 1));
    },
  });

  /** Zooms to the life of a block, in the timeline. */
  app.show_life = block => {
    app.set({view: "timeline", life: block.life});
    lens.show(block.from, block.until ?? app.shown().n_events);
  };

  const refresh_inks = () => {
    inks = scene.inks();
    rest = rest_of(inks);
    tiles.repaint();
  };
  const want = () => {
    if (!is_ready()) return;
    const height = lens.box().height * (devicePixelRatio || 1);
    tiles.want(lens.view(), height > 700 || app.state.vertical ? 768 : height < 300 ? 256 : 512);
  };
  new ResizeObserver(() => {
    if (!is_shown) return;
    measure();
    paint_minimap();
    want();
    dirty();
  }).observe(plot);

  return {
    element: root, keys: keys_of(app, lens, tiles),
    /** Shows the view; the promise is kept when the first picture is painted. */
    async show() {
      is_shown = true;
      minimap.element.hidden = !is_ready();
      measure();
      if (is_ready()) {
        want();
        if (!tiles.whole() && !tiles.drawn(lens.view()).length) await new Promise(kept => { ready = () => kept(null); });
        ready = null;
        lens.follow();
        paint_minimap();
      }
      dirty();
      await new Promise(kept => requestAnimationFrame(kept));
    },
    hide() {
      is_shown = false;
      tip.hide();
    },
    /** @param {Changed} changed */
    update(changed) {
      if (changed.has("theme")) { refresh_inks(); paint_minimap(); }
      if (changed.has("cursor")) lens.follow();
      if (PAINTED.some(key => changed.has(key))) want();
      dirty(PAINTED.some(key => changed.has(key)));
    },
    stats: () => ({frames_ms: frames.slice(), n_pictures: tiles.count()}),
    canvas: () => base,
  };
}

// The colour of what is not drawn block by block, as [red, green, blue].
/** @param {Inks} inks */
function rest_of({rest}) {
  return (rest.match(/[\d.]+/g) ?? [128, 128, 128]).slice(0, 3).map(Number);
}
