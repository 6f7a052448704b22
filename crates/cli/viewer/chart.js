// A chart of curves of bytes over moments, as steps, with one scale for all.

import {token} from "./colours.js";
import {number, tick_bytes} from "./text.js";
import {create as create_surface, label} from "./surface.js";

const EDGE = {left: 74, right: 10, top: 10, bottom: 20};

/**
 * Returns {surface, draw(chart)}. A chart is {curves: [{name, ink, points: [[moment, bytes], …], is_dashed, fill}], most, until, unit, is_bare}:
 * `ink` and `fill` name tokens of style.css, `most` and `until` are the ends of the scales; `unit` is that of the lower one, events unless
 * another is given. A bare chart has no axes.
 * @param {string} name @param {string} words
 */
export function create(name, words) {
  /** @type {Chart | null} */
  let chart = null;
  const surface = create_surface(name, (context, width, height) => {
    if (chart) paint(context, width, height, chart);
  });
  surface.canvas.setAttribute("role", "img");
  surface.canvas.setAttribute("aria-label", words);
  return {
    surface,
    /** @param {Chart} next @param {string} [text] */
    draw(next, text) {
      chart = next;
      if (text) surface.canvas.setAttribute("aria-label", text);
      surface.request();
    },
  };
}

/**
 * Returns the highest bytes and the last moment of curves, for the scales.
 * @param {Curve[]} curves
 */
export function extent(curves) {
  const of = {most: 1, until: 1};
  for (const {points} of curves) {
    for (const [moment, count] of points) {
      of.most = Math.max(of.most, count);
      of.until = Math.max(of.until, moment);
    }
  }
  return of;
}

/** @param {Pen} context @param {number} width @param {number} height @param {Chart} chart */
function paint(context, width, height, chart) {
  const edge = chart.is_bare ? {left: 2, right: 2, top: 4, bottom: 2} : EDGE;
  const box = {x: edge.left, y: edge.top, width: width - edge.left - edge.right, height: height - edge.top - edge.bottom};
  if (box.width < 10 || box.height < 10) return;
  /** @param {number} moment */
  const x = moment => box.x + moment / chart.until * box.width;
  /** @param {number} count */
  const y = count => box.y + box.height * (1 - count / (chart.most * 1.04));
  context.font = "11px system-ui, sans-serif";
  axes(context, box, chart, x, y);
  for (const curve of chart.curves) {
    const last = curve.points.at(-1);
    if (!last) continue;
    if (curve.fill) {
      context.fillStyle = token(curve.fill);
      steps(context, curve.points, x, y);
      context.lineTo(x(Math.min(chart.until, last[0])), y(0));
      context.lineTo(x(curve.points[0][0]), y(0));
      context.closePath();
      context.fill();
    }
    context.strokeStyle = token(curve.ink);
    context.lineWidth = 1.5;
    context.setLineDash(curve.is_dashed ? [5, 3] : []);
    steps(context, curve.points, x, y);
    context.stroke();
    context.setLineDash([]);
  }
}

/** @param {Pen} context @param {Point[]} points @param {(moment: number) => number} x @param {(count: number) => number} y */
function steps(context, points, x, y) {
  context.beginPath();
  let before = null;
  for (const [moment, count] of points) {
    if (before === null) context.moveTo(x(moment), y(count));
    else {
      context.lineTo(x(moment), y(before));
      context.lineTo(x(moment), y(count));
    }
    before = count;
  }
}

/** @param {Pen} context @param {PlotBox} box @param {Chart} chart @param {(moment: number) => number} x @param {(count: number) => number} y */
function axes(context, box, chart, x, y) {
  context.strokeStyle = token("--grid");
  context.lineWidth = 1;
  const step = step_of(chart.most, Math.max(2, Math.floor(box.height / 36)));
  context.beginPath();
  for (let at = 0; at <= chart.most * 1.04; at += step) {
    context.moveTo(box.x, Math.round(y(at)) + 0.5);
    context.lineTo(box.x + box.width, Math.round(y(at)) + 0.5);
  }
  context.stroke();
  if (chart.is_bare) return;
  context.fillStyle = token("--quiet");
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (let at = 0; at <= chart.most * 1.04; at += step) label(context, tick_bytes(at), box.x - 6, y(at), box.x - 4);
  context.textBaseline = "top";
  for (const part of [0, 0.5, 1]) {
    context.textAlign = part === 0 ? "left" : part === 1 ? "right" : "center";
    label(context, `${number(Math.round(chart.until * part))} ${chart.unit ?? "events"}`, x(chart.until * part), box.y + box.height + 5, 90);
  }
  context.textAlign = "left";
}

// A power of two of bytes, so that there are at most `count` steps.
/** @param {number} most @param {number} count */
function step_of(most, count) {
  let step = 2 ** Math.ceil(Math.log2(Math.max(1, most / count)));
  while (most / step > count) step *= 2;
  return step;
}
