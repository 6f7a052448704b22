// The block that is pinned: its sizes, address, life, pool, stream, owner, names and the whole stack, as text that can be selected.

import {WHOLE, base_name, bytes, counted, duration, element, exact_bytes, file_line, number, plain, reason_of} from "./text.js";
import {button} from "./controls.js";

/**
 * Returns the panel of the pinned block.
 * @param {App} app @returns {View}
 */
export function create(app) {
  const root = element("div", "details");
  let turn = 0;

  const refresh = async () => {
    const {life} = app.state;
    const mine = ++turn;
    // Without a block, its panel is the last (style.css).
    root.classList.toggle("is-empty", life === null);
    if (life === null) return root.replaceChildren(element("p", "quiet", "Click a block, or press Enter, to pin it here."));
    try {
      const block = await app.source.block({...app.query(), life});
      if (mine === turn) show(block);
    } catch (error) {
      if (mine === turn) root.replaceChildren(element("h2", "", "Block"), element("p", "error", reason_of(error)));
    }
  };

  /** @param {Block} block */
  const show = block => {
    const facts = element("dl", "facts");
    /** @param {string} name @param {string} text */
    const fact = (name, text) => facts.append(element("dt", "", name), element("dd", "", null, [element("bdi", "", plain(text, WHOLE))]));
    fact("Size", exact_bytes(block.bytes));
    const waste = block.bytes - block.requested_bytes;
    fact("Requested", exact_bytes(block.requested_bytes) + (waste > 0 ? `, ${bytes(waste)} lost to rounding` : ""));
    fact("Address", `${block.address}, block ${number(block.use + 1)} at this address`);
    fact("Allocated", birth(block));
    if (block.requested !== null && block.requested !== block.until) fact("Free requested", `event ${number(block.requested - 1)}`);
    fact("Freed", block.until === null ? "not in this history" : `event ${number(block.until - 1)}${block.until_us === null ? "" : `, at ${time(app, block.until_us)}`}`);
    fact("Life", life_text(app, block));
    fact("Pool", block.pool ?? "unknown");
    fact("Stream", String(block.stream));
    if (block.owner) fact("Owner", block.owner);
    if (block.scope) fact("Scope", block.scope);
    if (block.names?.length) fact("Names", block.names.join(", "));
    root.replaceChildren(element("h2", "", `Block ${number(block.life)}`), facts, buttons(block), stack(block));
    app.announce(`Block ${block.life} (${bytes(block.bytes)}) is pinned.`);
  };

  /** @param {Block} block */
  const buttons = block => {
    const until = block.until ?? app.shown().n_events;
    return element("div", "buttons", null, [
      button("Show its lifetime", "Zoom the timeline to this block's lifetime (f)", () => app.show_life(block)),
      button("Go to its allocation", "Move the cursor to where the block is allocated", () => app.goto(block.from)),
      button("Go to its free", "Move the cursor to where the block is freed", () => app.goto(until)),
      button("In memory", "Show the segments while this block is live", () => app.set({view: "state", cursor: within(app.state.cursor, block, until)})),
      button("Unpin", "Escape", () => app.pin(null)),
    ]);
  };

  /** @param {Block} block */
  const stack = block => {
    if (!block.frames.length) return element("p", "quiet", "No stack was recorded for this block.");
    const list = element("ol");
    /** @type {HTMLElement[]} */
    const inner = [];
    for (const of of block.frames) {
      const item = element("li", of.is_shown ? "" : "quiet", null, [element("bdi", "", plain(of.name || "??", WHOLE))]);
      if (of.filename) {
        const path = element("bdi", "path", plain(file_line(base_name(of.filename), of.line)));
        path.title = plain(of.filename, 2000);
        item.append(path);
      }
      if (!of.is_shown) { item.hidden = true; inner.push(item); }
      list.append(item);
    }
    const n_more = (block.n_frames ?? block.frames.length) - block.frames.length;
    if (n_more > 0) list.append(element("li", "quiet", `${counted(n_more, "more frame")} outside of these`));
    /** @type {HTMLElement[]} */
    const parts = [element("h3", "", "Stack, innermost first"), list];
    if (inner.length) {
      const all = button(`Show ${counted(inner.length, "frame")} of the allocator and the libraries`, "", () => {
        for (const item of inner) item.hidden = false;
        all.remove();
      });
      parts.push(all);
    }
    return element("div", "", null, parts);
  };

  /** @param {Changed} changed */
  const update = changed => {
    if (changed.has("life") && app.state.life === null) app.announce("");
    if (["life", "file", "device", "files"].some(key => changed.has(key))) refresh();
  };
  return {element: root, show: refresh, hide() {}, update};
}

/** @param {Block} block */
function birth(block) {
  if (block.is_from_before) return "before the history starts";
  return `event ${number(block.from - 1)}`;
}

/** @param {App} app @param {Block} block */
function life_text(app, block) {
  const until = block.until ?? app.shown().n_events;
  const events = `${counted(until - block.from, "event")}`;
  if (block.from_us === null || block.from_us === undefined || block.is_from_before) return events;
  const end = block.until_us ?? app.shown().last_us;
  return end === null ? events : `${events}, ${duration(end - block.from_us)}${block.until === null ? " or more" : ""}`;
}

/** @param {App} app @param {number} us */
function time(app, us) {
  return duration(us - (app.shown().first_us ?? 0));
}

/** @param {number | null} cursor @param {Block} block @param {number} until */
function within(cursor, block, until) {
  return cursor !== null && cursor >= block.from && cursor < until ? cursor : block.from;
}
