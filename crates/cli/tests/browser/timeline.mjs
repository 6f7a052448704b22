// The totals of all moments of a file: those of the page, compared with those of `memreel timeline`.
import {check, program} from "./page.mjs";

/** Returns the totals of all moments, as the page gives them. */
export async function totals_of(page, n_events) {
  const all = {allocated_bytes: [], active_bytes: [], reserved_bytes: []};
  for (let from = 0; from <= n_events; from += 100000) {
    const part = await page.evaluate(([from, count]) => window.memreel.totals_between(from, count), [from, Math.min(100000, n_events + 1 - from)]);
    for (const key of Object.keys(all)) for (const value of part[key]) all[key].push(value);
  }
  check(all.active_bytes.length === n_events + 1, `${all.active_bytes.length} totals of ${n_events + 1}`);
  return all;
}

/**
 * Compares with the table that `memreel timeline --csv` prints, as far as there are totals; returns how many rows. Where asked,
 * it begins with the first block: before that, a heap has an event for each of its segments, and a longer recording has more.
 */
export function compare_with_timeline(name, file, device, all, is_from_block = false) {
  const [head, ...lines] = program("timeline", "--csv", "--device", String(device), file).trim().split("\n");
  const column = text => head.split(",").indexOf(text);
  const columns = Object.keys(all).map(key => [key, column(key)]).filter(([, at]) => at >= 0);
  check(columns.length >= 2, `${name}: timeline --csv has the columns ${head}`);
  const rows = lines.map(line => line.split(","));
  const moment_of = row => /^\d+$/.test(row[column("event")]) ? Number(row[column("event")]) + 1 : 0;
  const has_block = row => Number(row[column("active_bytes")]) > 0;
  const first = is_from_block ? rows.findIndex(has_block) : 0;
  const n_more = is_from_block ? moment_of(rows[first]) - all.active_bytes.findIndex(bytes => bytes > 0) : 0;
  let n_compared = 0;
  for (const row of rows.slice(first)) {
    const event = row[column("event")];
    const moment = moment_of(row) - n_more;
    if (moment >= all.active_bytes.length) break;
    n_compared += 1;
    for (const [key, at] of columns) {
      if (Number(row[at]) !== all[key][moment]) return check(false, `${name}: ${key} after event ${event}: timeline ${row[at]}, page ${all[key][moment]}`);
    }
  }
  return n_compared;
}
