// The keyboard: every key with what it does, and the list of them.

import {COLOURINGS} from "./colours.js";
import {change_axis} from "./lens.js";
import {element, number, reason_of} from "./text.js";

/** @type {Record<string, [kind: string, name: string]>} */
const MARKS = {o: ["oom", "failure"], k: ["peak", "peak"], s: ["segment", "segment"]};

/**
 * Connects the keys. Keys of a view are in app.view().keys: [[keys, text, action], …].
 * @param {App} app @param {[name: string, title: string][]} views
 */
export function open(app, views) {
  let mark = "oom";
  const {dialog, content} = sheet("keys-dialog", "Keys");
  const place = ask_place(app);

  /** @param {string} kind @param {number} direction */
  const jump = async (kind, direction) => {
    mark = kind;
    // Without a cursor the search begins at the beginning or at the end.
    const from = app.state.cursor ?? (direction > 0 ? 0 : app.shown().n_events);
    const {moment} = await app.source.next({...app.query(), moment: from, kind, direction});
    if (moment === null) app.announce(`There is no ${direction > 0 ? "later" : "earlier"} ${kind}.`);
    else app.goto(moment);
  };
  /** @param {number} count */
  const step = count => app.goto(app.moment() + count);
  const marks = Object.entries(MARKS).map(/** @returns {Key} */ ([key, [kind, name]]) => [
    [key, key.toUpperCase()], `Next or previous ${name}`, of => jump(kind, of === key ? 1 : -1),
  ]);
  /** @type {Key[]} */
  const global = [
    [["[", "]"], "One event back or forward", key => step(key === "[" ? -1 : 1)],
    [["{", "}"], "100 events back or forward", key => step(key === "{" ? -100 : 100)],
    [["n", "p"], "Next or previous event marker of the kind selected last", key => jump(mark, key === "n" ? 1 : -1)],
    ...marks,
    [views.map((_, index) => String(index + 1)), views.map(([, title]) => title).join(", "), key => app.set({view: views[Number(key) - 1][0]})],
    [["c", "C"], "Next or previous colour scheme", key => app.set({colour: COLOURINGS[(COLOURINGS.indexOf(app.state.colour) + (key === "c" ? 1 : COLOURINGS.length - 1)) % COLOURINGS.length]})],
    [["x"], "Switch the axis between events and time", () => change_axis(app, app.state.axis === "events" ? "time" : "events")],
    [["/"], "Search", focus_search],
    [["g"], "Go to an event or an address", place],
    [["t"], "Switch between light and dark", () => app.toggle_theme()],
    [["?"], "Show this list of shortcuts", () => show()],
    [["Escape"], "Unpin the block; press again to clear the interval, and again to show everything", () => escape(app)],
  ];

  const show = () => {
    const list = element("div", "keys");
    for (const [keys, text] of [...(app.view()?.keys ?? []), ...global]) {
      const names = element("span");
      for (const key of keys) names.append(element("kbd", "", NAMES[key] ?? key), " ");
      list.append(names, element("span", "", text));
    }
    const mouse = element("p", "quiet", "Mouse in the timeline: drag to pan, scroll to zoom (hold Shift to zoom vertically), Shift-drag to mark an interval, click to pin a block, double-click to show its lifetime.");
    const note = app.note ? [element("p", "", app.note)] : [];
    content.replaceChildren(list, mouse, ...note);
    dialog.showModal();
  };
  document.getElementById("help")?.addEventListener("click", show);

  addEventListener("keydown", event => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.matches?.("input, textarea, select, [contenteditable]")) {
      if (event.key === "Escape") target.blur();
      return;
    }
    if (!app.device()) {
      if (event.key === "?" || event.key === "t") run(global, event);
      return;
    }
    // Enter and the arrows belong to a button, a tab or a list that has the focus.
    const is_control = target.closest?.("button, a, summary, [role=tab], [role=slider], aside");
    if (!is_control && run(app.view()?.keys ?? [], event)) return;
    run(global, event);
  });

  /** @param {Key[]} table @param {KeyboardEvent} event */
  const run = (table, event) => {
    const name = event.shiftKey && event.key.length > 1 ? `Shift+${event.key}` : event.key;
    const found = table.find(([keys]) => keys.includes(name));
    if (!found) return false;
    event.preventDefault();
    Promise.resolve(found[2](name)).catch(error => app.announce(reason_of(error)));
    return true;
  };
}

/** @type {Record<string, string>} */
const NAMES = {
  ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc",
  "Shift+ArrowLeft": "⇧←", "Shift+ArrowRight": "⇧→", "Shift+ArrowUp": "⇧↑", "Shift+ArrowDown": "⇧↓",
};

/** @param {App} app */
function escape(app) {
  if (app.state.life !== null) app.set({life: null});
  else if (app.state.interval) app.set({interval: null});
  else app.set({range: null, vertical: null});
}

function focus_search() {
  const field = /** @type {HTMLInputElement | null} */ (document.querySelector("#filters input[type=search]"));
  field?.focus();
  field?.select();
}

// Returns a dialog with a title and a button that closes it, and the place for its content.
/** @param {string} id @param {string} title */
function sheet(id, title) {
  const close = element("button", "primary", "Close");
  close.type = "button";
  const heading = element("h2", "", title);
  heading.id = `${id}-title`;
  const content = element("div", "content");
  const dialog = element("dialog", "", null, [heading, content, close]);
  dialog.id = id;
  dialog.setAttribute("aria-labelledby", heading.id);
  close.addEventListener("click", () => dialog.close());
  document.body.append(dialog);
  return {dialog, content};
}

// Returns a function that asks for an event or an address and goes there.
/** @param {App} app */
function ask_place(app) {
  const {dialog, content} = sheet("goto-dialog", "Go to");
  const field = element("input", "code");
  field.type = "text";
  field.setAttribute("aria-label", "Event number or address");
  field.placeholder = "1234 or 0x7f12000000";
  const message = element("p", "error");
  message.setAttribute("role", "alert");
  const go = async () => {
    const text = field.value.trim().replaceAll(",", "").toLowerCase();
    message.textContent = "";
    if (/^\d{1,15}$/.test(text)) {
      if (Number(text) >= app.shown().n_events) {
        message.textContent = `The history has ${number(app.shown().n_events)} events, numbered from 0.`;
        return;
      }
      app.goto(Number(text) + 1);
    } else if (/^0x[0-9a-f]{1,16}$/.test(text)) {
      try { await app.select(text); } catch (error) { message.textContent = reason_of(error); return; }
    } else {
      message.textContent = `"${field.value}" is neither an event number nor an address; use for example 1234 or 0x7f12000000.`;
      return;
    }
    dialog.close();
  };
  field.addEventListener("keydown", event => { if (event.key === "Enter") { event.preventDefault(); go(); } });
  content.append(element("p", "quiet", "An event number, or the address of a block that is live at the cursor."), field, message);
  return () => {
    message.textContent = "";
    dialog.showModal();
    field.select();
  };
}
