// A scrolled list of any number of rows: the position of the scroll bar stands for a row, because a browser's boxes end at a few million pixels.

/** Height of a row in pixels. */
export const ROW = 24;
const TALLEST = 6_000_000;

/**
 * Scrolls `scroller`, whose child `spacer` gets the height. Returns {first, resize(n), to(row), reveal(row), room()}: `first` is
 * the row at the top, with a fraction; `moved()` is called when it changes. The wheel moves by rows at any length.
 * @param {HTMLElement} scroller @param {HTMLElement} spacer @param {() => void} moved
 */
export function create(scroller, spacer, moved) {
  const list = {first: 0, resize, to, reveal, room};
  let n = 0;
  let written = 0;

  // Rows that fit whole.
  function room() {
    return Math.max(1, Math.floor(scroller.clientHeight / ROW));
  }

  const most = () => Math.max(0, n - scroller.clientHeight / ROW);
  const range = () => Math.max(0, spacer.offsetHeight - scroller.clientHeight);
  const is_scaled = () => n * ROW > TALLEST;

  /** @param {number} count */
  function resize(count) {
    n = count;
    spacer.style.height = `${Math.min(n * ROW, TALLEST)}px`;
    to(list.first);
  }

  /** @param {number} row */
  function to(row) {
    list.first = Math.min(Math.max(0, row), most());
    scroller.scrollTop = is_scaled() ? (most() ? list.first / most() * range() : 0) : list.first * ROW;
    written = scroller.scrollTop;
    moved();
  }

  /** @param {number} row */
  function reveal(row) {
    if (row < list.first) to(row);
    else if (row > list.first + room() - 1) to(row - room() + 1);
  }

  scroller.addEventListener("scroll", () => {
    if (Math.abs(scroller.scrollTop - written) < 1) return;
    written = scroller.scrollTop;
    list.first = is_scaled() ? (range() ? written / range() * most() : 0) : written / ROW;
    moved();
  });
  scroller.addEventListener("wheel", event => {
    if (!is_scaled() || event.ctrlKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return;
    event.preventDefault();
    const step = event.deltaMode === 1 ? event.deltaY : event.deltaMode === 2 ? event.deltaY * room() : event.deltaY / ROW;
    to(list.first + step);
  }, {passive: false});
  new ResizeObserver(() => to(list.first)).observe(scroller);
  return list;
}
