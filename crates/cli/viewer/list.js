// All blocks of the history as a table that is sorted by the server: a grid of which only the visible rows exist.

import {bytes, element, number, plain} from "./text.js";
import {button} from "./controls.js";
import {create as create_pages} from "./pages.js";
import {among} from "./filters.js";
import {ROW, create as create_virtual} from "./virtual.js";

/**
 * Name in `sort` (null: not sorted by it), heading, class, text of a row, width, title.
 * @typedef {[sort: string | null, name: string, kind: string, text: (of: Row) => string, width: string, title: string]} Column
 */

/** @type {Column[]} */
const COLUMNS = [
  ["bytes", "Size", "number", of => bytes(of.bytes), "7.5em", "Bytes after rounding"],
  [null, "Where", "code", of => of.where || "(no stack)", "minmax(15em, 1fr)", "The frame that allocated the block"],
  ["requested", "Requested", "number", of => bytes(of.requested_bytes), "7.5em", "Bytes that the program requested"],
  ["waste", "Waste", "number", of => bytes(of.bytes - of.requested_bytes), "7.5em", "Bytes lost to rounding"],
  ["life", "Life", "number", of => (of.until === null ? `${number(last() - of.from)}+` : number(of.until - of.from)), "6.5em", "Events between allocation and free"],
  ["from", "From", "number", of => (of.from === 0 ? "before" : number(of.from - 1)), "6.5em", "The event that allocated the block"],
  ["until", "Until", "number", of => (of.until === null ? "not freed" : number(of.until - 1)), "6.5em", "The event that freed the block"],
  ["address", "Address", "code", of => of.address, "9.5em", "The block's address"],
  [null, "Pool", "", of => of.pool, "5.5em", "The segment's pool"],
  [null, "Stream", "number", of => String(of.stream), "6em", "The block's stream"],
  [null, "Scope", "", of => of.scope ?? "", "11em", "The scope in which the block was allocated"],
];
let last = () => 0;

/**
 * Creates the view.
 * @param {App} app @returns {View}
 */
export function create(app) {
  last = () => app.device()?.n_events ?? 0;
  const pages = create_pages(app.source.list, arrived);
  const count = element("p", "quiet summary");
  count.setAttribute("aria-live", "polite");
  const head = element("div", "grid-row grid-head");
  const spacer = element("div", "spacer");
  const rows = element("div", "grid-rows");
  const scroller = element("div", "scroll grid-scroll", null, [rows, spacer]);
  // What scrolls has the focus; the head stays in place above it.
  const grid = scroller;
  const frame = element("div", "grid", null, [head, grid]);
  const whole = element("div", "list", null, [count, frame]);
  const active = {row: 0, column: 0};
  let wanted = "";
  grid.tabIndex = 0;
  head.id = "grid-head";
  set(grid, {role: "grid", "aria-owns": "grid-head", "aria-label": "Blocks", "aria-colcount": COLUMNS.length, "aria-readonly": "true"});
  set(head, {role: "row", "aria-rowindex": 1});
  set(rows, {role: "rowgroup"});
  frame.style.setProperty("--columns", COLUMNS.map(([, , , , width]) => width).join(" "));
  const heads = COLUMNS.map(heading);
  head.append(...heads);
  const virtual = create_virtual(scroller, spacer, refresh);

  /** @param {Column} of @param {number} index */
  function heading([sort, name, kind, , , title], index) {
    const cell = element("div", `grid-cell ${kind}`);
    set(cell, {role: "columnheader", "aria-colindex": index + 1});
    if (!sort) {
      cell.textContent = name;
      cell.title = title;
      return cell;
    }
    cell.append(button(name, `${title}; click to sort`, () => app.set({sort, descending: app.state.sort === sort ? 1 - app.state.descending : 1}), "quiet"));
    return cell;
  }

  function load() {
    const {sort, descending} = app.state;
    const params = {...app.filtered(), sort, descending};
    if (JSON.stringify(params) === wanted) return;
    wanted = JSON.stringify(params);
    active.row = 0;
    pages.reset(params);
    virtual.to(0);
    count.textContent = "Sorting…";
    for (const [index, cell] of heads.entries()) {
      const is_sorted = COLUMNS[index][0] === sort;
      if (is_sorted) cell.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
  }

  function arrived() {
    const n = pages.n ?? 0;
    if (Number(grid.dataset.rows) === n) return refresh();
    grid.dataset.rows = String(n);
    set(grid, {"aria-rowcount": n + 1});
    return virtual.resize(n);
  }

  /** @param {number} n */
  function describe(n) {
    if (pages.error) count.textContent = `Cannot show the list: ${plain(pages.error)}`;
    else if (pages.n === 0) count.textContent = app.device()?.n_lives === 0 ? "No blocks were recorded." : "No blocks match the filters. Remove a filter in the bar above.";
    else if (n) {
      const first = Math.floor(virtual.first) + 1;
      count.textContent = `${number(n)} of ${among(pages, app.device()?.n_lives)}; rows ${number(first)} to ${number(Math.min(n, Math.ceil(virtual.first) + virtual.room()))}`;
    }
  }

  // Fills as many rows as are visible; they are reused.
  function refresh() {
    const n = pages.n ?? 0;
    describe(n);
    const first = Math.floor(virtual.first);
    const visible = Math.min(n - first, virtual.room() + 2);
    while (rows.children.length < visible) rows.append(fresh());
    while (rows.children.length > Math.max(0, visible)) rows.lastChild?.remove();
    rows.style.transform = `translateY(${Math.round((first - virtual.first) * ROW)}px)`;
    for (let index = 0; index < visible; index += 1) fill(/** @type {HTMLElement} */ (rows.children[index]), first + index);
    point();
    if (n) pages.want(first, first + visible);
  }

  function fresh() {
    const row = element("div", "grid-row", null, COLUMNS.map(([, , kind], index) => {
      const cell = element("div", `grid-cell ${kind}`, "", [element("bdi")]);
      set(cell, {role: "gridcell", "aria-colindex": index + 1});
      return cell;
    }));
    set(row, {role: "row"});
    return row;
  }

  /** @param {HTMLElement} row @param {number} index */
  function fill(row, index) {
    const of = pages.row(index);
    row.dataset.index = String(index);
    if (of) row.dataset.life = String(of.life);
    else delete row.dataset.life;
    set(row, {"aria-rowindex": index + 2, "aria-selected": of !== null && of.life === app.state.life});
    for (const [column, [, , , text]] of COLUMNS.entries()) {
      const shown = of ? plain(text(of)) : "…";
      const place = /** @type {Element} */ (row.children[column].firstElementChild);
      if (place.textContent !== shown) place.textContent = shown;
    }
  }

  // Marks the active cell, which keeps the focus of the keyboard.
  function point() {
    rows.querySelector("#active-cell")?.removeAttribute("id");
    const cell = rows.querySelector(`[data-index="${active.row}"]`)?.children[active.column];
    if (!cell) return grid.removeAttribute("aria-activedescendant");
    cell.id = "active-cell";
    return set(grid, {"aria-activedescendant": "active-cell"});
  }

  /** @param {number} row */
  function go(row, column = active.column) {
    active.row = Math.min(Math.max(0, row), Math.max(0, (pages.n ?? 1) - 1));
    active.column = Math.min(Math.max(0, column), COLUMNS.length - 1);
    virtual.reveal(active.row);
    refresh();
    rows.querySelector("#active-cell")?.scrollIntoView({block: "nearest", inline: "nearest"});
  }

  grid.addEventListener("keydown", event => {
    if (event.target !== grid || event.altKey || event.metaKey) return;
    const page = virtual.room() - 1;
    /** @type {Record<string, () => void>} */
    const moves = {
      ArrowDown: () => go(active.row + 1), ArrowUp: () => go(active.row - 1), ArrowRight: () => go(active.row, active.column + 1),
      ArrowLeft: () => go(active.row, active.column - 1), PageDown: () => go(active.row + page), PageUp: () => go(active.row - page),
      Home: () => go(0), End: () => go(Infinity), Enter: () => pin(active.row),
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    moves[event.key]();
  });
  rows.addEventListener("click", event => {
    const cell = /** @type {Element} */ (event.target).closest(".grid-cell");
    const row = cell?.parentElement;
    if (!cell || !row || getSelection()?.toString()) return;
    go(Number(row.dataset.index), [...row.children].indexOf(cell));
    pin(active.row);
  });

  /** @param {number} index */
  function pin(index) {
    const of = pages.row(index);
    if (of) app.pin(of.life);
  }

  /** @param {Changed} changed */
  function update(changed) {
    if (["sort", "descending", "filters", "search", "file", "device"].some(key => changed.has(key))) load();
    else if (changed.has("life")) refresh();
  }

  function text() {
    const lines = [COLUMNS.map(([, name]) => name).join("\t")];
    const first = Math.floor(virtual.first);
    for (let index = first; index < first + virtual.room(); index += 1) {
      const of = pages.row(index);
      if (of) lines.push(COLUMNS.map(([, , , value]) => plain(value(of), 2000)).join("\t"));
    }
    return lines.join("\n");
  }

  return {element: whole, show: load, hide() {}, update, text};
}

/** @param {Element} of @param {Record<string, string | number | boolean>} attributes */
function set(of, attributes) {
  for (const [name, value] of Object.entries(attributes)) of.setAttribute(name, String(value));
}
