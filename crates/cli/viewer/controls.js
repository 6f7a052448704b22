// Buttons, and fields with labels.

import {element} from "./text.js";

/**
 * Returns a button with a text and a title. A click calls `act`.
 * @param {string} text @param {string} title @param {() => unknown} act
 */
export function button(text, title, act, name = "") {
  const made = element("button", name, text);
  Object.assign(made, {type: "button", title});
  made.addEventListener("click", act);
  return made;
}

/**
 * Returns a field in its label.
 * @param {string} title @param {HTMLElement} input
 */
export function labelled(title, input) {
  return element("label", "", null, [title, input]);
}
