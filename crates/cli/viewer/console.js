// window.memreel: what tests and the console of the browser can ask the page.

/**
 * Puts the functions in the window. `views()` returns the views that are loaded.
 * @param {App} app @param {() => View[]} views
 */
export function offer(app, views) {
  window.memreel = {
    /**
     * Returns the totals after an event. In a page that is one file they may have is_approximate.
     * @param {number} event
     */
    totals: event => app.source.totals({...app.query(), moment: event + 1}),
    /** Returns the totals of `count` moments. A page that is one file refuses. */
    totals_between: (/** @type {number} */ from, /** @type {number} */ count) => app.source.totals_between({...app.query(), from, count}),
    /** Pins the block at an address, at the cursor or at the peak, and returns it. */
    select: (/** @type {string} */ address, /** @type {number | undefined} */ moment) => app.select(address, moment),
    /**
     * Moves the cursor to the moment after an event.
     * @param {number} event
     */
    goto: event => app.goto(event + 1),
    /** Asks as the views do. */
    source: app.source,
    /** Returns the times of the page's own painting, the bytes of its heap if the browser has them, and the number of pictures. */
    async stats() {
      const all = {frames_ms: [], heap_bytes: performance.memory?.usedJSHeapSize ?? null, n_pictures: 0};
      for (const view of views()) Object.assign(all, view.stats?.() ?? {});
      return all;
    },
  };
}
