// What was found, above the picture: the sentences of `memreel FILE`, each a link to its place, and what to look at next.

import {write} from "./address.js";
import {element, plain, reason_of} from "./text.js";
import {button} from "./controls.js";
import {create as create_latest_request} from "./latest_request.js";

/** What failed and why comes first, then what grew, then the figures. @type {SummaryPart["topic"][]} */
const TOPICS = ["failure", "cause", "close_call", "growth", "kept", "quiet", "peak", "end"];

/**
 * Where the page has what a command shows.
 * @type {Record<string, Partial<State>>}
 */
const COMMANDS = {
  oom: {view: "answer", question: "oom"}, leaks: {view: "answer", question: "leaks"}, top: {view: "stacks", what: "live", cursor: null},
  fragmentation: {view: "state", cursor: null},
};

/**
 * Returns a link that changes the state.
 * @param {App} app @param {string} text @param {Partial<State>} patch
 */
export function link(app, text, patch) {
  const made = element("a", "place", plain(text, 4000));
  made.href = write({...app.state, ...patch});
  made.addEventListener("click", event => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    app.set(patch);
  });
  return made;
}

/** @param {Place} place @returns {Partial<State>} */
export const state_of = ({view, moment}) => ({view, cursor: moment, ...(view === "stacks" ? {what: /** @type {const} */ ("live")} : {})});

/**
 * Creates the panel.
 * @param {App} app @returns {View}
 */
export function create(app) {
  const ask = create_latest_request();
  const lines = element("div", "verdict-lines");
  const next = element("p", "verdict-next");
  const more = button("More", "Show or hide what else was found", () => {
    const is_open = whole.dataset.open !== "true";
    whole.dataset.open = String(is_open);
    more.textContent = is_open ? "Less" : "More";
    more.setAttribute("aria-expanded", String(is_open));
  }, "quiet verdict-more");
  more.setAttribute("aria-expanded", "false");
  const whole = element("div", "verdict", null, [lines, next, more]);
  whole.hidden = true;
  let wanted = "";

  async function load() {
    if (!app.device()) return;
    const key = JSON.stringify(app.query());
    if (key === wanted) return;
    wanted = key;
    whole.hidden = false;
    delete whole.dataset.state;
    lines.replaceChildren(element("p", "quiet", "Looking for what failed and what grew…"));
    next.replaceChildren();
    try {
      const answer = await ask(app.source.answer, app.query());
      if (answer) show(answer);
    } catch (error) {
      lines.replaceChildren(element("p", "error", `Cannot show what was found: ${plain(reason_of(error), 500)}`));
    }
  }

  /** @param {Answer} answer */
  function show({parts = [], next: commands = []}) {
    const found = TOPICS.flatMap(topic => parts.filter(part => part.topic === topic));
    const is_failure = found[0]?.topic === "failure";
    // The end matters where there is no peak.
    const shown = found.filter(part => part.topic !== "end" || !found.some(({topic}) => topic === "peak"));
    lines.replaceChildren(...shown.flatMap(paragraphs));
    const links = commands.filter(({command}) => COMMANDS[command]).map(({command, what}) => link(app, what, COMMANDS[command]));
    next.replaceChildren(...links.flatMap(of => [of, " "]));
    if (links.length) next.prepend(element("span", "quiet", "Next: "));
    whole.hidden = !shown.length;
    whole.classList.toggle("is-failure", is_failure);
    whole.dataset.state = "ready";
  }

  // The last twentieth of the events before a failure: in the whole history they are a few pixels wide.
  /** @param {Place} place @returns {Partial<State>} */
  function near({moment}) {
    const n = app.shown().n_events;
    return n > 400 ? {axis: "events", range: [Math.max(0, moment - n / 20), Math.min(n + 1, moment + n / 80)]} : {};
  }

  /** @param {SummaryPart} part */
  function paragraphs({topic, lines: texts, place}) {
    return texts.map((text, index) => {
      const is_advice = index > 0 || text.startsWith("   ");
      const line = plain(text.trim(), 4000);
      return element("p", `verdict-line ${is_advice ? "advice" : topic}`, null, [place && !is_advice ? link(app, line, {...state_of(place), ...(topic === "failure" ? near(place) : {})}) : line]);
    });
  }

  return {
    element: whole,
    show: load,
    hide() {},
    update(changed) {
      if (["files", "file", "device"].some(key => changed.has(key))) load();
    },
  };
}
