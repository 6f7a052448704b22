// Rows of a sorted list of any length, asked for in pages as they come into view.

import {reason_of} from "./text.js";

const PAGE = 200;
const MOST_PAGES = 60;
const AT_ONCE = 2;

/**
 * Returns {reset(params), row(index), want(from, to), n, n_kept, error}: `row` returns the row if it is there, `want` asks for those
 * that are missing, the latest wish first, and `arrived()` is called when some came.
 * @param {Ask<ListParams, Rows>} method @param {() => void} arrived
 */
export function create(method, arrived) {
  /** @type {Map<number, Row[]>} */
  let pages = new Map();
  /** @type {ListParams} */
  let params = {};
  let abort = new AbortController();
  /** @type {number[]} */
  let wishes = [];
  /** @type {Set<number>} */
  const running = new Set();
  const list = {
    n: /** @type {number | null} */ (null), n_kept: /** @type {number | null | undefined} */ (null), error: /** @type {string | null} */ (null),
    reset, row, want, stop,
  };

  /** @param {Omit<ListParams, "offset" | "count">} next */
  function reset(next) {
    stop();
    pages = new Map();
    params = next;
    list.n = null;
    list.error = null;
    want(0, 1);
  }

  function stop() {
    abort.abort();
    abort = new AbortController();
    wishes = [];
    running.clear();
  }

  /** @param {number} index */
  function row(index) {
    return pages.get(Math.floor(index / PAGE))?.[index % PAGE] ?? null;
  }

  /** @param {number} from @param {number} to */
  function want(from, to) {
    wishes = [];
    for (let page = Math.floor(from / PAGE); page * PAGE < to; page += 1) {
      const rows = pages.get(page);
      if (rows) keep(page, rows);
      else wishes.push(page);
    }
    for (const page of wishes.splice(0)) if (!running.has(page)) wishes.push(page);
    next();
  }

  async function next() {
    if (running.size >= AT_ONCE || list.error) return;
    const page = wishes.shift();
    if (page === undefined) return;
    const {signal} = abort;
    running.add(page);
    try {
      const answer = await method({...params, offset: page * PAGE, count: PAGE}, {signal});
      if (signal.aborted) return;
      list.n = answer.n;
      list.n_kept = answer.n_kept;
      keep(page, answer.rows);
    } catch (error) {
      if (signal.aborted) return;
      list.error = reason_of(error);
    }
    running.delete(page);
    arrived();
    next();
  }

  // The page that was used last is the last to go.
  /** @param {number} page @param {Row[]} rows */
  function keep(page, rows) {
    pages.delete(page);
    pages.set(page, rows);
    if (pages.size > MOST_PAGES) pages.delete(/** @type {number} */ (pages.keys().next().value));
  }

  return list;
}
