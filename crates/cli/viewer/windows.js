// The windows that the history is cut into: at each level half as wide, and each overlaps the next by half.

const LEAST_MOMENTS = 64;
const FINEST = 40;

/**
 * Returns the windows of the device and the axis that the app shows.
 * @param {App} app
 */
export function create(app) {
  /** Returns the extent of the axis: moments, or microseconds. */
  const span = () => {
    const device = app.shown();
    if (app.state.axis === "time") return Math.max(1, (device.last_us ?? 0) - (device.first_us ?? 0));
    return device.n_events + 1;
  };
  const top = () => Math.max(1, app.shown().top_bytes);

  // Windows finer than some moments have no more in them.
  const finest = () => Math.max(0, Math.floor(Math.log2(app.state.axis === "events" ? (2 * span()) / LEAST_MOMENTS : span())));

  /** @param {number} level @param {number} index @param {number} rise @param {number} shelf */
  const window_at = (level, index, rise, shelf) => {
    const half = span() / 2 ** level / 2;
    const high = top() / 2 ** rise / 2;
    return {
      key: `${level}/${index}/${rise}/${shelf}`, level, index, rise, shelf,
      from: index * half, to: (index + 2) * half, low: shelf * high, high: (shelf + 2) * high,
    };
  };

  return {
    span, top,
    /**
     * Returns the windows that a view needs, the most urgent first; those beside it have `is_ahead`.
     * @param {Extent & {direction: number}} view
     */
    wanted(view) {
      const across = fitting(view.from, view.to, span(), finest());
      const up = fitting(view.low, view.high, top(), FINEST);
      const here = window_at(across.level, across.index, up.level, up.index);
      /** @type {Cut[]} */
      const list = [here, window_at(0, 0, 0, 0)];
      for (const step of view.direction < 0 ? [-1, 1] : [1, -1]) {
        const index = here.index + step;
        if (index < 0 || index > last_index(here.level)) continue;
        list.push({...window_at(here.level, index, here.rise, here.shelf), is_ahead: true});
      }
      return list;
    },
    /**
     * Returns whether a window has all of a view in it.
     * @param {Extent} outer @param {Extent} view
     */
    contains(outer, view) {
      const slack = span() * 1e-9;
      return outer.from <= view.from + slack && outer.to >= Math.min(view.to, span()) - slack
        && outer.low <= Math.max(view.low, 0) + 1 && outer.high >= Math.min(view.high, top()) - 1;
    },
  };
}

/** @param {number} level */
const last_index = level => 2 ** (level + 1) - 2;

// The finest window of at most `finest` that has [from, to] in it. What is outside of [0, all] does not count.
/** @param {number} from @param {number} to @param {number} all @param {number} finest */
function fitting(from, to, all, finest) {
  const [first, last] = [Math.min(Math.max(from, 0), all), Math.min(to, all)];
  const width = Math.max(last - first, all / 2 ** finest);
  for (let level = Math.min(Math.max(0, Math.floor(Math.log2(all / width))), finest); level > 0; level--) {
    const half = all / 2 ** level / 2;
    const index = Math.min(Math.floor(first / half), last_index(level));
    if (first >= index * half && last <= (index + 2) * half) return {level, index};
  }
  return {level: 0, index: 0};
}
