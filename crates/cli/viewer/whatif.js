// What the reserved memory would have been under other settings of the allocator: a field, both curves, and both peaks.

import {bytes, element, percent, plain, reason_of} from "./text.js";
import {create as create_chart, extent} from "./chart.js";
import {button} from "./controls.js";
import {create as create_latest_request} from "./latest_request.js";

const EXAMPLES = ["expandable_segments:True", "max_split_size_mb:128", "roundup_power2_divisions:4"];
const POINTS = 400;
const CURVE = "what if";

/**
 * Creates the panel. Its curve is drawn in the timeline too.
 * @param {App} app @returns {View}
 */
export function create(app) {
  const ask = create_latest_request();
  const ask_curve = create_latest_request();
  const field = element("input", "code");
  Object.assign(field, {type: "text", placeholder: EXAMPLES[0], ariaLabel: "PyTorch allocator settings", autocomplete: "off", spellcheck: false});
  const go = button("Replay", "Replay the requests of the history under these settings", () => run(field.value.trim()));
  const stop = button("Clear", "Remove the curve", () => run(""));
  const examples = element("div", "whatif-examples", null, EXAMPLES.map(conf => button(conf, "Use this setting", () => {
    field.value = conf;
    run(conf);
  })));
  const words = element("p");
  words.setAttribute("aria-live", "polite");
  const chart = create_chart("whatif-chart", "Reserved bytes, as recorded and under these settings");
  chart.surface.element.hidden = true;
  const whole = element("div", "whatif", null, [
    element("h2", "", "Other settings"), element("div", "whatif-field", null, [field, go, stop]), examples, words, chart.surface.element,
  ]);
  let done = "";

  field.addEventListener("keydown", event => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    run(field.value.trim());
  });

  /** @param {string} conf */
  function run(conf) {
    if (conf === app.state.conf) done = "";
    app.set({conf});
    refresh();
  }

  async function refresh() {
    const {conf} = app.state;
    const key = JSON.stringify([app.query(), conf]);
    const device = app.device();
    whole.hidden = !device || device.is_host || device.n_events === 0 || app.source.is_offline === true;
    if (!device || key === done) return;
    done = key;
    if (document.activeElement !== field) field.value = conf;
    stop.hidden = !conf;
    if (!conf) return clear();
    words.className = "quiet";
    words.textContent = `Replaying under ${plain(conf)}…`;
    try {
      const [answer, recorded] = await Promise.all([ask(app.source.whatif, {...app.query(), conf}), ask_curve(app.source.curve, {...app.query(), points: POINTS})]);
      if (!answer || !recorded) return undefined;
      if (answer.error) throw new Error(answer.error);
      return show_answer(answer, recorded.points.map(([moment, , count]) => [moment, count]));
    } catch (error) {
      clear();
      words.className = "error";
      words.textContent = plain(reason_of(error), 500);
      return undefined;
    }
  }

  /** @param {Replayed} answer @param {Point[]} recorded */
  function show_answer(answer, recorded) {
    const before = recorded.reduce((most, [, count]) => Math.max(most, count), 0);
    const after = answer.peak_reserved_bytes;
    const change = after - before;
    const difference = change === 0 ? "the same" : `${bytes(Math.abs(change))} ${change < 0 ? "less" : "more"}${before ? ` (${percent(Math.abs(change) / before)})` : ""}`;
    words.className = "";
    words.textContent = `Peak reserved memory: ${bytes(before)} as recorded and ${bytes(after)} under ${plain(answer.conf)}, ${difference}.`;
    const curves = [{name: "recorded", ink: "--reserved", points: recorded}, {name: "replayed", ink: "--whatif", is_dashed: true, points: answer.points}];
    chart.surface.element.hidden = false;
    chart.draw({curves, ...extent(curves)}, words.textContent);
    Object.assign(whole.dataset, {conf: answer.conf, recorded: before, replayed: after});
    app.curve(CURVE, answer.points);
  }

  function clear() {
    ask.stop();
    ask_curve.stop();
    words.textContent = "";
    chart.surface.element.hidden = true;
    for (const key of ["conf", "recorded", "replayed"]) delete whole.dataset[key];
    if (app.curves.has(CURVE)) app.curve(CURVE, null);
  }

  /** @param {Changed} changed */
  function update(changed) {
    if (["conf", "file", "device", "files"].some(key => changed.has(key))) refresh();
    if (changed.has("theme")) chart.surface.request();
  }

  return {element: whole, show: refresh, hide() {}, update};
}
