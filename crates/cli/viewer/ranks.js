// Many files as small curves on one scale, and those that ran out of memory or whose peak is far from the median.

import {bytes, counted, device_name, element, file_names, number, plain, reason_of} from "./text.js";
import {create as create_chart} from "./chart.js";

/**
 * A device of a file, or a file that cannot be shown.
 * @typedef {{key: string, file: number, name: string, state: Recording["state"], device?: Device, error?: string | undefined}} Member
 * @typedef {Member & {device: Device}} Rank
 * @typedef {{most: number, until: number, middle: number}} Scale
 * @typedef {{chart: ReturnType<typeof create_chart>, open: HTMLElement, element: HTMLElement}} Elements
 * @typedef {Rank & Elements & {scale: Scale, is_seen: boolean, observer: IntersectionObserver}} Shown
 */

const POINTS = 200;
const AT_ONCE = 3;
// A peak is far from the median if it differs by this share of it and by several times the usual deviation.
const FAR = 0.05;
const DEVIATIONS = 4;

/**
 * Returns the median of peaks and, for each, the words that say why it is an outlier, or null: {median, reasons}. The usual
 * deviation is the median of the distances to the median.
 * @param {number[]} peaks
 */
export function outliers(peaks) {
  const middle = median(peaks);
  const usual = median(peaks.map(peak => Math.abs(peak - middle)));
  const reasons = peaks.map(peak => {
    const distance = peak - middle;
    if (peaks.length < 3 || !middle || Math.abs(distance) < FAR * middle || Math.abs(distance) <= DEVIATIONS * usual) return null;
    const side = distance > 0 ? "above" : "below";
    return `Peak is ${bytes(Math.abs(distance))} ${side} the median of ${bytes(middle)}; the typical deviation is ${bytes(usual)}`;
  });
  return {median: middle, reasons};
}

/**
 * Returns the words for each rank whose requests failed while those of at least as many others did not; null for the others.
 * @param {number[]} counts
 */
export function failures(counts) {
  const n_failed = counts.filter(count => count > 0).length;
  return counts.map(count => {
    if (!count) return null;
    const text = `Out of memory: ${counted(count, "request")} failed`;
    return n_failed * 2 <= counts.length ? `${text}; ${counted(counts.length - n_failed, "rank")} had no failure` : text;
  });
}

/** @param {Device} of */
const n_failures_of = ({markers}) => markers.filter(({kind}) => kind === "oom").length;

/** @param {number[]} numbers */
function median(numbers) {
  if (!numbers.length) return 0;
  const sorted = [...numbers].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** @param {Member[]} far @param {number} n_devices */
function verdict(far, n_devices) {
  if (!far.length) return n_devices < 3 ? "At least three ranks are needed to find outliers." : "All peaks are close to the median.";
  return `${counted(far.length, "outlier")}: ${far.slice(0, 10).map(of => plain(of.name, 60)).join(", ")}${far.length > 10 ? ", …" : ""}`;
}

/**
 * Creates the view.
 * @param {App} app @returns {View}
 */
export function create(app) {
  const summary = element("p", "summary");
  const grid = element("div", "ranks-grid scroll");
  grid.setAttribute("role", "list");
  const note = element("p", "quiet summary", "One scale for all. Filled: active; orange line: reserved; dashed: the median of the peaks.");
  const whole = element("div", "ranks", null, [summary, note, grid]);
  /** @type {Map<string, [moment: number, active: number, reserved: number][] | null>} */
  const known = new Map();
  /** @type {Shown[]} */
  let charts = [];
  let abort = new AbortController();
  let built = "";

  // A device of a file, for each that can be read.
  /** @returns {Member[]} */
  function members() {
    const names = file_names(app.all_files());
    return app.all_files().flatMap(/** @returns {Member[]} */ (file, index) => {
      if (file.state !== "ready") return [{key: `${index}`, file: index, name: names[index], state: file.state, error: file.error}];
      const devices = file.devices ?? [];
      return devices.map(of => ({key: `${index}/${of.device}`, file: index, device: of, name: devices.length < 2 ? names[index] : app.all_files().length < 2 ? `Device ${device_name(of.device)}` : `Device ${device_name(of.device)}, ${names[index]}`, state: "ready"}));
    });
  }

  async function show() {
    const all = members();
    const key = JSON.stringify(all.map(of => [of.key, of.state, of.name]));
    if (key !== built) build(all);
    built = key;
    mark();
    await fetch_curves();
  }

  /** @param {Member[]} all */
  function build(all) {
    const ready = all.filter(/** @returns {of is Rank} */ of => of.device !== undefined);
    const peaks = ready.map(of => of.device.peak.active_bytes);
    const {median: middle, reasons: of_peaks} = outliers(peaks);
    const of_failures = failures(ready.map(of => n_failures_of(of.device)));
    const reasons = ready.map((_, index) => [of_failures[index], of_peaks[index]].filter(Boolean).join("; ") || null);
    // One scale of bytes and one of events, for all.
    const most = Math.max(1, ...ready.map(of => of.device.top_bytes));
    const until = Math.max(1, ...ready.map(of => of.device.n_events));
    for (const of of charts) of.observer.disconnect();
    charts = ready.map((of, index) => tile(of, reasons[index], {most, until, middle}));
    grid.replaceChildren(...charts.map(of => of.element), ...all.filter(of => !of.device).map(unread));
    const far = ready.filter((_, index) => reasons[index]);
    const spread = ready.length ? `; median peak ${bytes(middle)}, lowest ${bytes(Math.min(...peaks))}, highest ${bytes(Math.max(...peaks))}` : "";
    summary.textContent = `${counted(ready.length, "device")} of ${counted(app.all_files().length, "file")}${spread}. ${verdict(far, ready.length)}`;
    Object.assign(whole.dataset, {ranks: ready.length, outliers: far.length, median: middle});
  }

  /** @param {Rank} of @param {string | null} reason @param {Scale} scale @returns {Shown} */
  function tile(of, reason, scale) {
    const {peak, n_events} = of.device;
    const chart = create_chart("rank-chart", `Active and reserved bytes of ${plain(of.name)}`);
    const open = element("button", `rank${reason ? " outlier" : ""}`, null, [
      element("span", "rank-name ellipsis", null, [element("bdi", "", plain(of.name))]),
      element("span", "quiet", `Peak ${bytes(peak.active_bytes)}, ${number(n_events)} events`),
      chart.surface.element,
    ]);
    if (reason) open.append(element("span", "rank-reason", reason));
    open.type = "button";
    open.title = "Open in the timeline";
    open.addEventListener("click", () => app.set({file: of.file, device: of.device.device, view: "timeline"}));
    const place = element("div", "", null, [open]);
    place.setAttribute("role", "listitem");
    // Curves are asked for as they are scrolled into view.
    const observer = new IntersectionObserver(([entry]) => {
      if (!entry.isIntersecting || made.is_seen) return;
      made.is_seen = true;
      fetch_curves();
    }, {root: grid, rootMargin: "200px"});
    const made = {...of, chart, open, element: place, scale, is_seen: false, observer};
    observer.observe(place);
    return made;
  }

  /** @param {Member} of */
  function unread(of) {
    const place = element("div", "rank", null, [element("bdi", "rank-name", plain(of.name)), element("span", of.state === "failed" ? "error" : "quiet", plain(of.error ?? of.state))]);
    place.setAttribute("role", "listitem");
    return place;
  }

  function mark() {
    for (const of of charts) of.open.setAttribute("aria-current", String(of.file === app.state.file && of.device.device === app.state.device));
  }

  let n_running = 0;
  async function fetch_curves() {
    const {signal} = abort;
    const next = charts.find(of => of.is_seen && !known.has(of.key));
    if (!next || n_running >= AT_ONCE) return;
    known.set(next.key, null);
    n_running += 1;
    try {
      const {points} = await app.source.curve({file: next.file, device: next.device.device, points: POINTS}, {signal});
      known.set(next.key, points);
      draw(next);
    } catch (error) {
      known.delete(next.key);
      if (!signal.aborted) app.announce(reason_of(error));
      next.is_seen = false;
    }
    n_running -= 1;
    if (!signal.aborted) fetch_curves();
  }

  /** @param {Shown} of */
  function draw(of) {
    const points = known.get(of.key);
    if (!points) return;
    of.chart.draw({
      curves: [
        {name: "active", ink: "--active", fill: "--rest", points: points.map(([moment, count]) => [moment, count])},
        {name: "reserved", ink: "--reserved", points: points.map(([moment, , count]) => [moment, count])},
        {name: "median", ink: "--quiet", is_dashed: true, points: [[0, of.scale.middle], [of.scale.until, of.scale.middle]]},
      ], most: of.scale.most, until: of.scale.until, is_bare: true,
    });
  }

  /** @param {Changed} changed */
  function update(changed) {
    if (changed.has("theme")) for (const of of charts) of.chart.surface.request();
    if (["files", "file", "device"].some(key => changed.has(key))) show();
  }

  function hide() {
    abort.abort();
    abort = new AbortController();
  }

  function text() {
    return [summary.textContent, ...charts.map(of => [plain(of.name), of.device.peak.active_bytes, of.open.querySelector(".rank-reason")?.textContent ?? ""].join("\t"))].join("\n");
  }

  return {element: whole, show, hide, update, text};
}
