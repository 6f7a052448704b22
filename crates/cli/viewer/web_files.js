// Opening files in a page that has memreel in it: the first screen, dropping, and what is written for a download.

import {button} from "./controls.js";
import {bytes, element, plain, reason_of} from "./text.js";

/** What can be downloaded: a title, the words of the command, and the end of the file's name. @type {[title: string, words: string[], end: string][]} */
const DOWNLOADS = [
  ["Report (HTML)", ["report"], "-report.html"],
  ["Report without names (HTML)", ["report", "--anonymise"], "-report.html"],
  ["Events (CSV)", ["convert", "--to", "csv"], ".csv"],
  ["Smaller snapshot: blocks of 1 MiB or more, 20 frames a stack", ["slim", "--min-size", "1MiB", "--depth", "20"], "-slim.pickle"],
  ["Snapshot without names", ["slim", "--anonymise"], "-anonymous.pickle"],
  ["Trace for ui.perfetto.dev", ["convert", "--to", "perfetto"], "-perfetto.json"],
];

/**
 * Connects the page, and returns its first screen.
 * @param {App} app @param {(files: File[]) => void} add @param {(words: string[], options?: Options) => Promise<Printed>} command
 * @param {() => boolean} is_long whether the view computes for long @param {() => void} stop stops it
 */
export function create(app, add, command, is_long, stop) {
  const input = element("input");
  Object.assign(input, {type: "file", multiple: true, hidden: true, id: "choose"});
  input.addEventListener("change", () => {
    if (input.files?.length) add([...input.files]);
    input.value = "";
  });
  const choose = () => input.click();
  connect_drop(add);
  const stopping = button("Stop", "Stop the computation in progress", stop);
  stopping.hidden = true;
  setInterval(() => { stopping.hidden = !is_long(); }, 1000);
  document.getElementById("copy")?.before(element("span", "web", null, [
    button("Open…", "Open more snapshots: other ranks of the run, or one to compare with", choose), downloads(app, command), stopping, input,
  ]));
  return element("div", "first", null, [
    element("h2", "", "Open a memory snapshot"),
    button("Drop snapshots here, or choose files", "Choose files on this computer", choose, "primary"),
    element("p", "", "Files from torch.cuda.memory._dump_snapshot, pages from PyTorch's trace_plot, JSON, and memreel tapes. Several files are shown as the ranks of one run; two can also be compared."),
    element("p", "quiet", "The files stay on this computer: memreel runs in this page, and the page cannot connect to anything."),
  ]);
}

/** @param {(files: File[]) => void} add */
function connect_drop(add) {
  const {dataset} = document.documentElement;
  /** @param {DragEvent} event */
  const has_files = event => event.dataTransfer?.types.includes("Files");
  addEventListener("dragover", event => {
    if (!has_files(event)) return;
    event.preventDefault();
    dataset.drop = "";
  });
  addEventListener("dragleave", event => { if (!event.relatedTarget) delete dataset.drop; });
  addEventListener("drop", event => {
    delete dataset.drop;
    if (!has_files(event)) return;
    event.preventDefault();
    add([...event.dataTransfer?.files ?? []]);
  });
}

/** Returns the menu of downloads. @param {App} app @param {(words: string[], options?: Options) => Promise<Printed>} command */
function downloads(app, command) {
  const select = element("select");
  select.title = "Write a file from the snapshot that is shown";
  select.setAttribute("aria-label", "Download");
  select.append(new Option("Download…", ""), ...DOWNLOADS.map(([title], index) => new Option(title, String(index))));
  const stop = button("Stop", "Stop writing the file", () => controller.abort(new Error("stopped")));
  stop.hidden = true;
  let controller = new AbortController();
  select.addEventListener("change", async () => {
    const [title, words, end] = DOWNLOADS[Number(select.value)];
    select.value = "";
    const file = app.file();
    if (file?.state !== "ready") return app.announce("Open a snapshot first.");
    controller = new AbortController();
    stop.hidden = !(select.disabled = true);
    app.announce(`${title}: writing…`);
    try {
      const name = file.name.replace(/(\.pickle|\.pkl|\.tape|\.json|\.html|\.gz)+$/, "") + end;
      const {status, stderr, written} = await command([...words, file.name, "-o", name], {signal: controller.signal});
      const [made] = written;
      if (status || !made) throw new Error(stderr.replace(/^memreel: /, "").trim() || `the exit status is ${status}`);
      save(new Blob([made.bytes]), made.name);
      app.announce(`Saved ${plain(made.name)} (${bytes(made.bytes.length)})`);
    } catch (error) {
      app.announce(`${title}: ${plain(reason_of(error), 500)}`);
    }
    stop.hidden = !(select.disabled = false);
  });
  return element("span", "", null, [select, stop]);
}

/** @param {Blob} blob @param {string} name */
function save(blob, name) {
  const link = element("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
