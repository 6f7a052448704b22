// Paints pictures in a thread of its own, so that the page stays smooth. The file is both the thread and the way to it.

import {paint} from "./picture.js";

const is_thread = typeof document === "undefined";

if (is_thread) {
  onmessage = ({data: {number, of, look}}) => {
    const bitmap = paint(of, look);
    postMessage({number, bitmap}, {transfer: [bitmap]});
  };
}

/** Returns a painter: paint(picture, {kind, rest, is_searched}) returns a promise of the bitmap. */
export function create() {
  /** @type {Map<number, {of: Raster, look: Look, keep: (bitmap: ImageBitmap) => void}>} */
  const waiting = new Map();
  /** @type {Worker | null} */
  let thread = null;
  let number = 0;
  const alone = () => {
    thread = null;
    for (const {of, look, keep} of waiting.values()) keep(paint(of, look));
    waiting.clear();
  };
  // A page that is one file has no other file for a thread.
  if (!document.getElementById("pack")) try {
    thread = new Worker(new URL("painter.js", import.meta.url), {type: "module"});
    thread.onmessage = ({data}) => {
      waiting.get(data.number)?.keep(data.bitmap);
      waiting.delete(data.number);
    };
    // A browser without such threads paints in the page.
    thread.onerror = alone;
  } catch { /* painted in the page */ }

  return {
    /** @param {Raster} of @param {Look} look */
    paint({n_columns, n_rows, n_lives, lives, groups, matches, raster}, look) {
      const of = {n_columns, n_rows, n_lives, lives, groups, matches, raster};
      const worker = thread;
      if (!worker) return Promise.resolve(paint(of, look));
      return new Promise(keep => {
        number += 1;
        waiting.set(number, {of, look, keep});
        // Views of one buffer are sent as one copy of it.
        worker.postMessage({number, of, look});
      });
    },
  };
}
