// Answers in words, as the commands print them: the summary, why a request failed, what grows, other settings, and what fits.

import {element, file_names, plain, reason_of} from "./text.js";
import {button, labelled} from "./controls.js";
import {create as create_latest_request} from "./latest_request.js";
import {link, state_of} from "./verdict.js";

/** @type {[question: Question, name: string, title: string, wait: string][]} */
const QUESTIONS = [
  ["summary", "Summary", "memreel FILE", "Looking for what failed and what grew…"],
  ["oom", "Why it failed", "memreel oom FILE", "Looking for why the request failed…"],
  ["leaks", "What grew", "memreel leaks FILE", "Looking for what grows…"],
  ["settings", "Settings", "memreel replay --sweep FILE", "Replaying the requests under other settings; this may take a minute…"],
  ["fit", "What fits", "memreel fit 4=FILE 8=FILE", "Predicting…"],
];
const MOST_LETTERS = 20000;

/**
 * Creates the view.
 * @param {App} app @returns {View}
 */
export function create(app) {
  const ask = create_latest_request();
  const choices = QUESTIONS.map(([question, name, title]) => ({question, button: button(name, title, () => app.set({question}))}));
  const form = element("form", "bar answer-fit");
  const text = element("div", "answer-text");
  text.setAttribute("aria-live", "polite");
  const whole = element("div", "answer", null, [element("div", "bar", null, choices.map(of => of.button)), form, element("div", "scroll grow answer-scroll", null, [text])]);
  const limit = field("Limit", "80GiB", "Find the largest size whose reserved memory stays within this limit");
  const at = field("At", "", "Predict the peaks at this size");
  /** @type {HTMLInputElement[]} */
  let sizes = [];
  let built = "";

  /** @param {string} title @param {string} placeholder @param {string} words */
  function field(title, placeholder, words) {
    const input = element("input");
    Object.assign(input, {type: "text", placeholder, size: 8, ariaLabel: title, title: words, autocomplete: "off", spellcheck: false});
    return input;
  }

  function build() {
    const names = file_names(app.all_files());
    if (JSON.stringify(names) === built) return;
    built = JSON.stringify(names);
    sizes = names.map(name => field(`Size of ${plain(name, 80)}`, "", "The size of this run, such as its batch size"));
    const go = element("button", "primary", "Predict");
    go.type = "submit";
    form.replaceChildren(...sizes.map((input, index) => labelled(`Size of ${plain(names[index], 40)}`, input)), labelled("Limit", limit), labelled("At size", at), go);
  }

  form.addEventListener("submit", event => {
    event.preventDefault();
    load();
  });

  async function load() {
    const {question} = app.state;
    for (const of of choices) of.button.setAttribute("aria-pressed", String(of.question === question));
    form.hidden = question !== "fit" || app.all_files().length < 2 || app.source.is_offline === true;
    if (question === "fit") {
      build();
      if (form.hidden) return say("memreel predicts what fits from runs at other sizes; open two or more of them: memreel view FIRST SECOND.");
      const given = sizes.map((input, index) => [index, input.value.trim()]).filter(([, size]) => size);
      if (given.length < 2) return say("Enter a size for two or more runs, such as the batch size, and a limit, such as the GPU's memory.");
      return show(question, {sizes: given.map(of => of.join("=")).join(","), limit: limit.value.trim(), at: at.value.trim()});
    }
    return show(question, {});
  }

  /** @param {string} words */
  function say(words, kind = "quiet") {
    ask.stop();
    text.replaceChildren(element("p", kind, words));
  }

  /** @param {Question} question @param {{sizes?: string, limit?: string, at?: string}} more */
  async function show(question, more) {
    say(QUESTIONS.find(([of]) => of === question)?.[3] ?? "");
    try {
      const answer = await ask(app.source.answer, {...app.query(), ...more, ...(question === "summary" ? {} : {question})});
      if (!answer) return;
      const all = answer.parts?.flatMap(part => part.lines.map((of, index) => line(of, index ? null : part.place, part.topic, index === 0))) ?? (answer.lines ?? []).map(of => line(of, null, "", false));
      text.replaceChildren(...all);
      text.dataset.question = question;
    } catch (error) {
      say(plain(reason_of(error), 2000), "error");
    }
  }

  // The lines after the first of a sentence begin where it begins.
  /** @param {string} words @param {Place | null} place @param {string} topic @param {boolean} is_first */
  function line(words, place, topic, is_first) {
    const shown = plain(words, MOST_LETTERS);
    const indent = shown.length - shown.trimStart().length;
    const made = element("div", is_first ? "answer-line is-first" : "answer-line", null, [place ? link(app, shown, state_of(place)) : shown || " "]);
    made.dataset.topic = topic;
    made.style.paddingInlineStart = `${indent + 2}ch`;
    made.style.textIndent = `-${indent + 2}ch`;
    return made;
  }

  /** @param {Changed} changed */
  function update(changed) {
    if (["question", "file", "device", "files"].some(key => changed.has(key))) load();
  }

  return {element: whole, show: load, hide: () => ask.stop(), update, text: () => [...text.children].map(of => of.textContent).join("\n")};
}
