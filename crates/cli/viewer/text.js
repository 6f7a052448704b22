// Numbers, bytes, times and frames as text, in the form that the commands of memreel print.

const UNITS = ["KiB", "MiB", "GiB", "TiB"];
const whole = new Intl.NumberFormat("en-US", {maximumFractionDigits: 0});

/**
 * Returns bytes as text: "512 B", "1.50 MiB".
 * @param {number | null | undefined} count @returns {string}
 */
export function bytes(count) {
  if (count === null || count === undefined || Number.isNaN(count)) return "unknown";
  if (count < 0) return "-" + bytes(-count);
  if (count < 1024) return `${Math.round(count)} B`;
  let index = -1;
  let rest = count;
  do { rest /= 1024; index += 1; } while (rest >= 1023.995 && index < UNITS.length - 1);
  return `${rest.toFixed(2)} ${UNITS[index]}`;
}

/**
 * Returns bytes for a tick of an axis, without zeros that say nothing: "1.5 MiB", "2 GiB".
 * @param {number} count
 */
export function tick_bytes(count) {
  return bytes(count).replace(/\.(\d*?)0+ /, (_, digits) => (digits ? `.${digits} ` : " "));
}

/**
 * Returns bytes with their exact number: "1.50 MiB (1,572,864 bytes)".
 * @param {number | null | undefined} count
 */
export function exact_bytes(count) {
  if (count === null || count === undefined) return "unknown";
  return count < 1024 ? `${count} B` : `${bytes(count)} (${number(count)} bytes)`;
}

/**
 * Returns a whole number with separators: "1,234,567".
 * @param {number | null | undefined} count
 */
export function number(count) {
  return count === null || count === undefined ? "unknown" : whole.format(count);
}

/**
 * Returns a moment as `memreel at` names it, by the event that has just happened: "after event 1,113".
 * @param {number | null | undefined} moment
 */
export function moment_words(moment) {
  return moment === 0 ? "before the first event" : `after event ${number(moment && moment - 1)}`;
}

/**
 * Returns the number of the event after which a moment is: "1,113", as in `memreel at`. Before the first event, "start".
 * @param {number} moment
 */
export function event_number(moment) {
  return moment === 0 ? "start" : number(moment - 1);
}

/**
 * Returns the moment after an event that a reader wrote: null for nothing, NaN for what is not an event.
 * @param {string} text
 */
export function moment_of(text) {
  const written = text.replaceAll(",", "").trim();
  if (written === "start") return 0;
  return written === "" ? null : /^\d{1,15}$/.test(written) ? Number(written) + 1 : NaN;
}

/**
 * Returns the events between two moments: "events 120 to 339".
 * @param {number} from @param {number} until
 */
export function events_between(from, until) {
  return until <= from + 1 ? `event ${number(from)}` : `events ${number(from)} to ${number(until - 1)}`;
}

/**
 * Returns "1 block" or "2,000 blocks".
 * @param {number | null | undefined} count @param {string} noun
 */
export function counted(count, noun) {
  return `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/**
 * Returns a fraction as per cent: "12.5%".
 * @param {number} fraction
 */
export function percent(fraction) {
  return `${(100 * fraction).toFixed(1)}%`;
}

/**
 * Returns microseconds as a duration: "12 µs", "3.20 ms", "1.500 s", "4 min 5.0 s".
 * @param {number | null | undefined} us
 */
export function duration(us) {
  if (us === null || us === undefined) return "unknown";
  const size = Math.abs(us);
  if (size < 1000) return `${Math.round(us)} µs`;
  if (size < 1e6) return `${(us / 1000).toFixed(2)} ms`;
  if (size < 60e6) return `${(us / 1e6).toFixed(3)} s`;
  return `${Math.trunc(us / 60e6)} min ${((size % 60e6) / 1e6).toFixed(1)} s`;
}

/**
 * Returns the last part of a path.
 * @param {string | null | undefined} path
 */
export function base_name(path) {
  return (path || "").split(/[\\/]/).pop() ?? "";
}

/**
 * Returns the names of files without the folders that all of them are in.
 * @param {{name: string}[]} files
 */
export function file_names(files) {
  const paths = files.map(of => of.name.split("/"));
  let n_shared = 0;
  while (paths.length && paths.every(path => path.length > n_shared + 1 && path[n_shared] === paths[0][n_shared])) n_shared += 1;
  return paths.map(path => path.slice(n_shared).join("/"));
}

/**
 * Returns the name of a device: its number, but -1 is the host's pinned memory.
 * @param {number} device
 */
export function device_name(device) {
  return device === -1 ? "host (pinned)" : String(device);
}

/**
 * Returns a file with the line in it, which is 0 if it is not known.
 * @param {string} file @param {number} line
 */
export function file_line(file, line) {
  return line ? `${file}:${line}` : file;
}

/**
 * Returns a frame in one line: "train.py:12 forward", cut and escaped as by `plain`.
 * @param {{name: string, filename: string | null, line: number}} of
 */
export function frame(of) {
  const where = of.filename && of.filename !== "??" ? `${file_line(base_name(of.filename), of.line)} ` : "";
  return plain(where + (of.name || "??"), 400);
}

/**
 * Returns a text of at most `most` characters with the middle left out.
 * @param {string} text @param {number} most
 */
export function shortened(text, most) {
  if (text.length <= most) return text;
  const half = Math.floor((most - 1) / 2);
  return `${text.slice(0, half)}…${text.slice(text.length - half)}`;
}

/**
 * Returns a new element with a class, a text and children. Texts of a snapshot become text nodes only.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag @param {string} [name] @param {string | null} [text] @param {(Node | string)[]} [children]
 */
export function element(tag, name = "", text = null, children = []) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== null) made.textContent = text;
  made.append(...children);
  return made;
}

/**
 * Returns the text of what was thrown.
 * @param {unknown} error
 */
export function reason_of(error) {
  return error instanceof Error ? error.message : String(error);
}

// Control characters, marks and overrides of direction, ends of lines, and halves of surrogate pairs.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
/** @type {Record<string, string>} */
const ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"};

/** Characters of a text where all of it is shown. */
export const WHOLE = 2_000_000;

/**
 * Returns a text of a snapshot for one line: what cannot be seen as an escape ("\u{202e}"), cut after `most` characters.
 * @param {unknown} text
 */
export function plain(text, most = 200) {
  const whole = String(text ?? "");
  // An escape makes a text longer, so the cut comes first: the work does not grow with a name of 1 MB.
  const cut = whole.length > most ? `${whole.slice(0, most)}…` : whole;
  return cut.replace(HIDDEN, one => ESCAPES[one] ?? `\\u{${one.charCodeAt(0).toString(16)}}`);
}
