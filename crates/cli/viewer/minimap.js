// The whole history in small: the view is a window in it that can be dragged.

import {element} from "./text.js";
import {clamp} from "./app.js";

/**
 * Returns the minimap. `move(from, to)` is called with fractions of the whole.
 * @param {(from: number, to: number) => void} move
 */
export function create(move) {
  const canvas = element("canvas");
  canvas.setAttribute("aria-hidden", "true");
  const frame = element("div", "window");
  const root = element("div", "minimap", null, [canvas, frame]);
  let shown = [0, 1];
  /** @type {number | null} */
  let grip = null;
  let inset = 0;
  let across = 0;

  /** @param {PointerEvent} event */
  const fraction = event => {
    const box = root.getBoundingClientRect();
    return clamp((event.clientX - box.left - inset) / Math.max(1, box.width - inset), 0, 1);
  };
  root.addEventListener("pointerdown", event => {
    if (event.button !== 0) return;
    const at = fraction(event);
    const width = shown[1] - shown[0];
    // A press outside the window centres it there.
    if (at < shown[0] || at > shown[1]) shown = [at - width / 2, at + width / 2];
    grip = at - shown[0];
    root.setPointerCapture(event.pointerId);
    drag(event);
  });
  /** @param {PointerEvent} event */
  const drag = event => {
    if (grip === null) return;
    const width = shown[1] - shown[0];
    const from = clamp(fraction(event) - grip, 0, 1 - width);
    move(from, from + width);
  };
  root.addEventListener("pointermove", drag);
  root.addEventListener("pointerup", () => { grip = null; });
  root.addEventListener("pointercancel", () => { grip = null; });

  return {
    element: root,
    /**
     * Paints the active and reserved bytes of the picture of everything.
     * @param {Picture} picture @param {number} top @param {Inks} inks @param {number} left
     */
    paint(picture, top, inks, left) {
      inset = left;
      const ratio = devicePixelRatio || 1;
      const [width, height] = [root.clientWidth, root.clientHeight];
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
      context.scale(ratio, ratio);
      across = width - inset;
      const most = top * 1.04;
      for (let x = 0; x < across; x++) {
        const first = Math.floor(x / across * picture.n_columns);
        const last = Math.max(first + 1, Math.floor((x + 1) / across * picture.n_columns));
        let [active, reserved] = [0, 0];
        for (let column = first; column < last; column++) {
          active = Math.max(active, picture.active_max[column]);
          reserved = Math.max(reserved, picture.reserved_max[column]);
        }
        context.fillStyle = inks.rest;
        context.fillRect(inset + x, height * (1 - active / most), 1, height);
        context.fillStyle = inks.reserved;
        context.fillRect(inset + x, height * (1 - reserved / most), 1, 1);
      }
    },
    /**
     * Shows which part of the whole the view is.
     * @param {number} from @param {number} to
     */
    place(from, to) {
      shown = [from, to];
      frame.style.left = `${inset + from * across}px`;
      frame.style.width = `${Math.max(3, (to - from) * across)}px`;
    },
  };
}
