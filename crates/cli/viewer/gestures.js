// The pointer and the wheel over the timeline: drag pans, shift-drag brushes, a click points, the wheel zooms.

/**
 * @typedef {object} Gestures
 * @property {(at: Spot) => void} hover
 * @property {() => void} leave
 * @property {(at: Spot) => void} click
 * @property {(at: Spot) => void} fit
 * @property {(across: number, up: number) => void} pan
 * @property {(is_dragged: boolean) => void} drag
 * @property {(from: number, to: number, is_done: boolean) => void} brush
 * @property {(at: Spot, factor: number, is_vertical: boolean) => void} zoom
 */

const CLICK_PIXELS = 4;

/**
 * Calls the methods of `on` with points relative to the element:
 * hover(point), leave(), click(point), fit(point), pan(dx, dy), drag(is_dragged), brush(from_x, to_x, is_done), zoom(point, factor, is_vertical).
 * @param {HTMLElement} surface @param {Gestures} on
 */
export function listen(surface, on) {
  /** @type {{start: Spot, last: Spot, is_brush: boolean, is_moved: boolean} | null} */
  let press = null;
  /** @param {MouseEvent} event */
  const point = event => {
    const box = surface.getBoundingClientRect();
    return {left: event.clientX - box.left, top: event.clientY - box.top};
  };

  surface.addEventListener("pointerdown", event => {
    if (event.button !== 0) return;
    const at = point(event);
    press = {start: at, last: at, is_brush: event.shiftKey, is_moved: false};
    surface.setPointerCapture(event.pointerId);
    on.leave();
  });
  surface.addEventListener("pointermove", event => {
    const at = point(event);
    if (!press) return on.hover(at);
    if (!press.is_moved && Math.hypot(at.left - press.start.left, at.top - press.start.top) < CLICK_PIXELS) return;
    if (!press.is_moved) on.drag(!press.is_brush);
    press.is_moved = true;
    if (press.is_brush) on.brush(press.start.left, at.left, false);
    else on.pan(at.left - press.last.left, at.top - press.last.top);
    press.last = at;
  });
  /** @param {PointerEvent} event */
  const release = event => {
    if (!press) return;
    const {start, last, is_brush, is_moved} = press;
    press = null;
    on.drag(false);
    if (event.type === "pointercancel") return;
    if (!is_moved) on.click(point(event));
    else if (is_brush) on.brush(start.left, last.left, true);
  };
  surface.addEventListener("pointerup", release);
  surface.addEventListener("pointercancel", release);
  surface.addEventListener("pointerleave", () => { if (!press) on.leave(); });
  surface.addEventListener("dblclick", event => on.fit(point(event)));
  surface.addEventListener("wheel", event => {
    event.preventDefault();
    const unit = [1, 20, 400][event.deltaMode] ?? 1;
    const is_sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    // Some systems turn the wheel sideways while shift is held.
    if (is_sideways && !event.shiftKey && !event.altKey) return on.pan(-event.deltaX * unit, 0);
    const turned = Math.max(-300, Math.min(300, (is_sideways ? event.deltaX : event.deltaY) * unit));
    on.zoom(point(event), Math.exp(turned * 0.002), event.shiftKey || event.altKey);
  }, {passive: false});
}
