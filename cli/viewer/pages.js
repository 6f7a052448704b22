// Rows of a sorted list of any length, asked for in pages as they come into view.

const PAGE = 200;
const MOST_PAGES = 60;
const AT_ONCE = 2;

/**
 * Returns {reset(params), row(index), want(from, to), n, n_kept, error}: `row` returns the row if it is there, `want` asks for those
 * that are missing, the latest wish first, and `arrived()` is called when some came.
 */
export function create(method, arrived) {
  let pages = new Map();
  let params = null;
  let abort = new AbortController();
  let wishes = [];
  const running = new Set();
  const list = {n: null, n_kept: null, error: null, reset, row, want, stop};

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

  function row(index) {
    return pages.get(Math.floor(index / PAGE))?.[index % PAGE] ?? null;
  }

  function want(from, to) {
    wishes = [];
    for (let page = Math.floor(from / PAGE); page * PAGE < to; page += 1) {
      if (!pages.has(page)) wishes.push(page);
      else keep(page, pages.get(page));
    }
    for (const page of wishes.splice(0)) if (!running.has(page)) wishes.push(page);
    next();
  }

  async function next() {
    if (running.size >= AT_ONCE || !wishes.length || list.error) return;
    const page = wishes.shift();
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
      list.error = error.message;
    }
    running.delete(page);
    arrived();
    next();
  }

  // The page that was used last is the last to go.
  function keep(page, rows) {
    pages.delete(page);
    pages.set(page, rows);
    if (pages.size > MOST_PAGES) pages.delete(pages.keys().next().value);
  }

  return list;
}
