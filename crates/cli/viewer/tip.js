// The tip at the pointer: the size at once, the place of the allocation as soon as the server has answered.

import {bytes, element, frame, number, plain, reason_of, shortened} from "./text.js";

const MOST_KNOWN = 500;
const WAIT_MS = 90;

/**
 * Returns the tip of a place in the page. At most one request runs at a time, and answers are kept.
 * @param {App} app @param {HTMLElement} place
 */
export function create(app, place) {
  const root = element("div", "tip");
  root.hidden = true;
  root.setAttribute("aria-hidden", "true");
  place.append(root);
  /** @type {Map<string, Block | {error: string, frames: Frame[]}>} */
  const known = new Map();
  /** @type {number | null} */
  let wanted = null;
  let is_running = false;
  let timer = 0;

  /** @param {number} life */
  const key = life => `${app.state.file}/${app.state.device}/${life}`;
  const fetch_wanted = async () => {
    timer = 0;
    if (is_running || wanted === null || known.has(key(wanted))) return;
    is_running = true;
    const life = wanted;
    const of = key(life);
    try {
      known.set(of, await app.source.block({...app.query(), life}));
    } catch (error) {
      known.set(of, {error: reason_of(error), frames: []});
    }
    if (known.size > MOST_KNOWN) known.delete(/** @type {string} */ (known.keys().next().value));
    is_running = false;
    if (wanted === life) describe(life);
    else fetch_wanted();
  };

  const line = root.appendChild(element("div"));
  const where = root.appendChild(element("div", "where"));
  /** @param {number} life */
  const describe = life => {
    const block = known.get(key(life));
    where.textContent = !block ? "…" : "error" in block ? block.error : site(block);
  };

  return {
    /**
     * Shows a block: {life, bytes}.
     * @param {{life: number, bytes?: number}} of @param {number} left @param {number} top
     */
    block({life, bytes: size}, left, top) {
      if (wanted !== life || root.hidden) {
        wanted = life;
        line.replaceChildren(element("b", "", bytes(size)), ` block, life ${number(life)}`);
        describe(life);
        if (!timer) timer = setTimeout(fetch_wanted, WAIT_MS);
      }
      this.move(left, top);
    },
    /**
     * Shows lines of text.
     * @param {string} first @param {string} second @param {number} left @param {number} top
     */
    text(first, second, left, top) {
      wanted = null;
      line.textContent = first;
      where.textContent = second;
      this.move(left, top);
    },
    /** @param {number} left @param {number} top */
    move(left, top) {
      root.hidden = false;
      const [width, height] = [root.offsetWidth, root.offsetHeight];
      const x = left + 14 + width > place.clientWidth ? Math.max(0, left - width - 10) : left + 14;
      const y = top + 16 + height > place.clientHeight ? Math.max(0, top - height - 8) : top + 16;
      root.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
    },
    hide() {
      wanted = null;
      root.hidden = true;
    },
  };
}

/**
 * Returns where a block was allocated: the innermost frame that is shown.
 * @param {{frames: Frame[]}} block
 */
export function site(block) {
  const shown = block.frames.find(of => of.is_shown) ?? block.frames[0];
  return shown ? plain(shortened(frame(shown), 160)) : "no stack was recorded";
}
