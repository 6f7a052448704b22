// Copies of the view that is open: its text, a PNG of what is on the screen, and a drawing as SVG.

import {base_name, bytes, device_name, element, moment_words, number, plain, reason_of} from "./text.js";
import {button} from "./controls.js";
import {decode} from "./picture.js";
import {create as create_drawing} from "./drawing.js";
import {draw as draw_picture} from "./picture_drawing.js";
import {ground} from "./surface.js";
import {clamp} from "./app.js";
import {create as create_windows} from "./windows.js";

const ROWS = 384;
const LINE = 17;
const HEAD = 24;
const MOST_LINES = 400;
const MOST_LETTERS = 240;

/**
 * Creates the buttons.
 * @param {App} app @returns {View}
 */
export function create(app) {
  const whole = element("div", "", null, [
    button("Copy", "Copy the view as text", () => copyText(app)), button("PNG", "Copy the view as an image, or save it", () => savePng(app)),
    button("SVG", "Save the view as SVG", () => saveSvg(app)),
  ]);
  return {element: whole, show() {}, hide() {}, update() {}};
}

/**
 * Copies the view as text, and returns the text. Saves it as a file if the browser denies the clipboard.
 * @param {App} app
 */
export function copyText(app) {
  return attempt(app, async () => {
    const text = `${title_of(app)}\n${await text_of(app)}\n`;
    try {
      await navigator.clipboard.writeText(text);
      app.announce(`Copied ${number(text.length)} characters`);
    } catch {
      save(new Blob([text], {type: "text/plain"}), `${name_of(app)}.txt`);
      app.announce("Saved the text to a file instead, because the browser denied access to the clipboard");
    }
    return text;
  });
}

/**
 * Copies the view as PNG, or saves it if the browser denies the clipboard, and returns the blob.
 * @param {App} app
 */
export function savePng(app) {
  return attempt(app, async () => {
    const blob = await png_of(app);
    try {
      await navigator.clipboard.write([new ClipboardItem({"image/png": blob})]);
      app.announce(`Copied a PNG of ${bytes(blob.size)}`);
    } catch {
      save(blob, `${name_of(app)}.png`);
      app.announce(`Saved a PNG of ${bytes(blob.size)}`);
    }
    return blob;
  });
}

/**
 * Saves the view as SVG, and returns the SVG.
 * @param {App} app
 */
export function saveSvg(app) {
  return attempt(app, async () => {
    const svg = await svg_of(app);
    save(new Blob([svg], {type: "image/svg+xml"}), `${name_of(app)}.svg`);
    app.announce(`Saved an SVG of ${bytes(svg.length)}`);
    return svg;
  });
}

/** @template T @param {App} app @param {() => Promise<T>} act */
async function attempt(app, act) {
  try {
    return await act();
  } catch (error) {
    app.announce(`Cannot copy the view: ${plain(reason_of(error))}`);
    return null;
  }
}

/** @param {App} app */
function title_of(app) {
  const {state} = app;
  const filters = Object.entries(state.filters).map(([key, value]) => `${key} ${value}`);
  if (state.search) filters.push(`search ${state.search}`);
  return plain([base_name(app.file()?.name), `device ${device_name(state.device)}`, state.view, state.view === "state" || state.view === "stacks" ? moment_words(app.moment()) : "", ...filters].filter(Boolean).join(", "), 400);
}

/** @param {App} app */
function name_of(app) {
  return `memreel-${(base_name(app.file()?.name) || "view").replace(/[^A-Za-z0-9._-]+/g, "-").slice(0, 60)}-${app.state.view}`;
}

/** @param {App} app */
async function text_of(app) {
  const own = app.view()?.text?.();
  if (own) return own;
  const device = app.shown();
  const totals = await app.source.totals({...app.query(), moment: app.moment()});
  /** @param {string} name @param {Totals} of */
  const line = (name, of) => of.is_approximate ? `${name}: ${moment_words(of.moment)}, about ${bytes(of.active_bytes)} active` : `${name}: ${moment_words(of.moment)}, allocated ${bytes(of.allocated_bytes)}, active ${bytes(of.active_bytes)}, reserved ${bytes(of.reserved_bytes)}, ${number(of.n_blocks)} blocks`;
  const marks = device.markers.map(of => `${of.kind} ${moment_words(of.moment)}: ${plain(of.text, 1000)}`);
  return [line("Cursor", totals), line("Peak", device.peak), `${number(device.n_events)} events, ${number(device.n_lives)} blocks`, ...marks].join("\n");
}

/** @param {App} app */
async function png_of(app) {
  const view = app.view();
  const canvas = view?.canvas?.();
  const sharp = canvas ? canvas.width / canvas.clientWidth || 1 : devicePixelRatio || 1;
  const lines = canvas ? [] : await lines_of(app);
  const [width, height] = canvas ? [canvas.width / sharp, canvas.height / sharp] : size_of(lines);
  const copy = document.createElement("canvas");
  copy.width = Math.round(Math.max(width, 320) * sharp);
  copy.height = Math.round((height + HEAD) * sharp);
  const context = /** @type {CanvasRenderingContext2D} */ (copy.getContext("2d"));
  context.scale(sharp, sharp);
  ground(context, copy.width / sharp, copy.height / sharp);
  write_head(context, app);
  if (canvas) context.drawImage(canvas, 0, HEAD, width, height);
  else write_lines(context, lines);
  return new Promise((keep, fail) => { copy.toBlob(blob => (blob ? keep(blob) : fail(new Error("the image is too large"))), "image/png"); });
}

/** @param {App} app */
async function svg_of(app) {
  const view = app.view();
  if (view?.svg) return view.svg();
  if (app.state.view === "timeline") return timeline_svg(app);
  const lines = await lines_of(app);
  const [width, height] = size_of(lines);
  const drawing = create_drawing(width, height + HEAD);
  ground(drawing, width, height + HEAD);
  write_head(drawing, app);
  write_lines(drawing, lines);
  return drawing.text();
}

// The picture of the smallest window that holds the view, cut to the view.
/** @param {App} app */
async function timeline_svg(app) {
  const {axis, range, vertical, colour} = app.state;
  const windows = create_windows(app);
  const [span, top] = [windows.span(), windows.top() * 1.04];
  const [from, to] = cut(range, span) ?? [0, span];
  const [low, high] = cut(vertical, top) ?? [0, top];
  const [{level, index, rise, shelf}] = windows.wanted({from, to, low, high, direction: 1});
  const picture = decode(await app.source.picture({...app.filtered(), axis, level, index, rise, shelf, rows: ROWS, colour}));
  const canvas = app.view()?.canvas?.();
  const [width, height] = [canvas?.clientWidth || 1200, canvas?.clientHeight || 600];
  const drawing = create_drawing(width, height + HEAD);
  ground(drawing, width, height + HEAD);
  write_head(drawing, app);
  draw_picture(drawing, picture, {from, to, low, high, is_events: axis === "events"}, colour, {top: HEAD + 4, width, height: height + HEAD});
  return drawing.text();
}

// The part of an interval in [0, most], or null if there is none.
/** @param {Interval | null} interval @param {number} most */
function cut(interval, most) {
  const [from, to] = interval?.map(of => clamp(of, 0, most)) ?? [0, 0];
  return to > from ? [from, to] : null;
}

/** @param {App} app */
async function lines_of(app) {
  const all = (await text_of(app)).split("\n");
  const cut = all.slice(0, MOST_LINES).map(line => plain(line.replaceAll("\t", "    "), MOST_LETTERS));
  return all.length > MOST_LINES ? [...cut, `… ${number(all.length - MOST_LINES)} more lines`] : cut;
}

/** @param {string[]} lines */
function size_of(lines) {
  return [Math.max(480, lines.reduce((most, line) => Math.max(most, line.length), 0) * 7.4 + 24), lines.length * LINE + 12];
}

/** @param {Pen} context @param {App} app */
function write_head(context, app) {
  context.font = "600 12px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.fillStyle = getComputedStyle(document.body).color;
  context.fillText(title_of(app), 10, HEAD / 2);
}

/** @param {Pen} context @param {string[]} lines */
function write_lines(context, lines) {
  context.font = "12px monospace";
  for (const [index, line] of lines.entries()) context.fillText(line, 10, HEAD + index * LINE + LINE / 2);
}

/** @param {Blob} blob @param {string} name */
function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
