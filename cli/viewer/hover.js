// The small box beside the pointer that names a block.

import {bytes, element, frame, number, plain} from "./text.js";

const DELAY_MS = 60;

/** Returns {element, show(x, y, lines), block(x, y, life, lines), hide()} for a box with a position of its own. */
export function create(app) {
  const tip = element("div", "tip");
  tip.hidden = true;
  let timer = 0;
  let turn = 0;

  function show(x, y, lines) {
    clearTimeout(timer);
    turn += 1;
    fill(x, y, lines);
  }

  function fill(x, y, lines) {
    tip.replaceChildren(...lines.map((text, index) => element("div", index ? "where" : "", null, [element("bdi", "", plain(text))])));
    tip.hidden = false;
    const room = tip.parentElement;
    tip.style.left = `${Math.max(0, Math.min(x + 14, room.clientWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${y + 18 + tip.offsetHeight > room.clientHeight ? Math.max(0, y - tip.offsetHeight - 8) : y + 18}px`;
  }

  // The lines at once, and the block's frame as soon as the server has named it.
  function block(x, y, life, lines) {
    show(x, y, lines);
    const mine = turn;
    timer = setTimeout(async () => {
      try {
        const of = await app.source.block({...app.query(), life});
        if (mine === turn) fill(x, y, [...lines, ...of.names.slice(0, 3), ...of.frames.filter(one => one.is_shown).slice(0, 3).map(frame)]);
      } catch { /* the lines that are there have the figures */ }
    }, DELAY_MS);
  }

  function hide() {
    clearTimeout(timer);
    turn += 1;
    tip.hidden = true;
  }

  return {element: tip, show, block, hide};
}

/** Returns the lines about a block that need no question. */
export function lines_of(life, size, requested, is_pending) {
  const waste = size - requested;
  return [
    `Block ${number(life)}: ${bytes(size)}${is_pending ? ", free requested, pending" : ""}`,
    `requested ${bytes(requested)}${waste ? `, rounded up by ${bytes(waste)}` : ""}`,
  ];
}
