// The slider over all events, with buttons that step and jump to the next event of a kind.

import {element, event_number, moment_of, moment_words, number, reason_of} from "./text.js";
import {button} from "./controls.js";

const JUMPS = [["oom", "OOM", "out-of-memory error"], ["peak", "Peak", "peak"], ["segment", "Segment", "segment event"]];

/**
 * Returns {element, update()}. Moving it sets the cursor.
 * @param {App} app
 */
export function create(app) {
  const slider = element("input", "steps-slider");
  Object.assign(slider, {type: "range", min: "0", step: "1", ariaLabel: "Moment, by the event that has just happened"});
  const field = element("input", "steps-field number");
  Object.assign(field, {type: "text", inputMode: "numeric", ariaLabel: "Event", size: 9});
  const length = element("span", "quiet");
  const jumps = JUMPS.map(([kind, name, words]) => element("span", "steps-jump", null, [
    step("◀", `Previous ${words}`, () => jump(kind, words, -1)), element("span", "quiet", name), step("▶", `Next ${words}`, () => jump(kind, words, 1)),
  ]));
  const whole = element("div", "steps", null, [
    step("−", "One event back", () => app.goto(app.moment() - 1)), slider, step("+", "One event forward", () => app.goto(app.moment() + 1)), element("span", "quiet", "after event"), field, length, ...jumps,
  ]);

  /** @param {string} kind @param {string} words @param {number} direction */
  async function jump(kind, words, direction) {
    try {
      const {moment} = await app.source.next({...app.query(), moment: app.moment(), kind, direction});
      if (moment === null) app.announce(`There is no ${direction > 0 ? "later" : "earlier"} ${words}`);
      else app.goto(moment);
    } catch (error) {
      app.announce(reason_of(error));
    }
  }

  slider.addEventListener("input", () => app.goto(Number(slider.value)));
  field.addEventListener("change", () => {
    const moment = moment_of(field.value);
    if (moment !== null && !Number.isNaN(moment)) app.goto(moment);
    update();
  });

  function update() {
    const most = app.device()?.n_events ?? 0;
    slider.max = String(most);
    slider.value = String(app.moment());
    field.value = event_number(app.moment());
    slider.setAttribute("aria-valuetext", moment_words(app.moment()));
    length.textContent = `of ${number(most)} events`;
  }

  return {element: whole, update};
}

/** @param {string} sign @param {string} title @param {() => unknown} act */
function step(sign, title, act) {
  return Object.assign(button(sign, title, act), {ariaLabel: title});
}
