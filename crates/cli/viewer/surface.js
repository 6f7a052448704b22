// A canvas as large as its box and as sharp as the screen, painted at most once a frame.

import {element, plain} from "./text.js";
import {token} from "./colours.js";
import {create as create_drawing} from "./drawing.js";

/**
 * Returns {element, canvas, width, height, request(), svg()}. `paint(context, width, height)` draws in CSS pixels, on a
 * canvas or on a drawing (drawing.js), whose result svg() returns.
 * @param {string} name @param {(context: Pen, width: number, height: number) => void} paint
 */
export function create(name, paint) {
  const canvas = element("canvas");
  const box = element("div", `surface-box ${name}`, null, [canvas]);
  let asked = 0;
  const surface = {element: box, canvas, width: 0, height: 0, request, now, svg};

  function request() {
    asked ||= requestAnimationFrame(now);
  }

  function now() {
    cancelAnimationFrame(asked);
    asked = 0;
    const {width, height} = surface;
    if (!width || !height) return;
    const sharp = devicePixelRatio || 1;
    const across = Math.round(width * sharp);
    const down = Math.round(height * sharp);
    if (canvas.width !== across || canvas.height !== down) {
      canvas.width = across;
      canvas.height = down;
    }
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.setTransform(sharp, 0, 0, sharp, 0, 0);
    ground(context, width, height);
    paint(context, width, height);
  }

  function svg() {
    const drawing = create_drawing(surface.width, surface.height);
    ground(drawing, surface.width, surface.height);
    paint(drawing, surface.width, surface.height);
    return drawing.text();
  }

  new ResizeObserver(([entry]) => {
    surface.width = Math.floor(entry.contentRect.width);
    surface.height = Math.floor(entry.contentRect.height);
    now();
  }).observe(box);
  return surface;
}

/**
 * Fills a context with the page's colour.
 * @param {Pen} context @param {number} width @param {number} height
 */
export function ground(context, width, height) {
  context.fillStyle = token("--ground");
  context.fillRect(0, 0, width, height);
}

/**
 * Draws a text cut to a width, on one line. Nothing if not even three characters fit.
 * @param {Pen} context @param {string} text @param {number} x @param {number} y @param {number} width
 */
export function label(context, text, x, y, width) {
  const each = 6.6;
  const most = Math.floor(width / each);
  if (most < 3) return;
  let cut = plain(text, most + 12);
  if (context.measureText(cut).width > width) {
    while (cut.length > 3 && context.measureText(`${cut}…`).width > width) cut = cut.slice(0, -Math.max(1, Math.floor(cut.length / 12)));
    if (context.measureText(`${cut}…`).width > width) return;
    cut += "…";
  }
  context.fillText(cut, x, y);
}

/**
 * Draws diagonal lines over a rectangle.
 * @param {Pen} context @param {number} x @param {number} y @param {number} width @param {number} height
 */
export function hatch(context, x, y, width, height, step = 5) {
  context.beginPath();
  for (let at = -height + (step - ((Math.floor(x) % step) + step) % step); at < width; at += step) {
    const from = Math.max(at, 0);
    const to = Math.min(at + height, width);
    if (from >= to) continue;
    context.moveTo(x + from, y + height - (from - at));
    context.lineTo(x + to, y + height - (to - at));
  }
  context.stroke();
}
