// The line at the bottom: the totals at the cursor. Screen readers read it when it changes.

import {bytes, counted, duration, number, reason_of} from "./text.js";

/**
 * Keeps an element equal to the totals at the cursor, with at most one request at a time.
 * @param {App} app @param {HTMLElement} place
 */
export function create(app, place) {
  let is_running = false;
  let is_late = false;

  const refresh = async () => {
    if (!app.device()) return;
    if (is_running) { is_late = true; return; }
    is_running = true;
    try {
      const moment = app.moment();
      const totals = await app.source.totals({...app.query(), moment});
      app.totals = totals;
      if (totals.time_us !== null && !totals.is_approximate) app.times.set(moment, totals.time_us);
      if (app.times.size > 5000) app.times.clear();
      place.textContent = line(app, totals);
      place.classList.remove("error");
      app.notify(new Set(["totals"]));
    } catch (error) {
      place.textContent = reason_of(error);
      place.classList.add("error");
    }
    is_running = false;
    if (is_late) { is_late = false; refresh(); }
  };
  app.on(changed => {
    if (["file", "device"].some(key => changed.has(key))) app.times.clear();
    if (["cursor", "file", "device", "files"].some(key => changed.has(key))) refresh();
  });
}

/** @param {App} app @param {Totals} totals */
function line(app, totals) {
  const device = app.shown();
  const at = app.state.cursor === null && device.n_events > 0 ? "At the peak, " : "";
  const event = device.n_events === 0 ? "at the end (no history)" : totals.event === null ? "before the first event" : `after event ${number(totals.event)} of ${number(device.n_events)}`;
  /** @param {string} text */
  const sentence = text => text[0].toUpperCase() + text.slice(1);
  if (totals.is_approximate) return sentence(`${event}: about ${bytes(totals.active_bytes)} active (exact only around the peak, failed requests and the end)`);
  const action = totals.action ? ` (${totals.action})` : "";
  const time = totals.time_us !== null && device.first_us !== null ? ` at ${duration(totals.time_us - device.first_us)}` : "";
  return sentence(`${at}${event}${action}${time}: allocated ${bytes(totals.allocated_bytes)}, active ${bytes(totals.active_bytes)}, reserved ${bytes(totals.reserved_bytes)}, ${counted(totals.n_blocks, "block")}`);
}
