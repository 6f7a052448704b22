// Answers of memreel itself, in a page that has it as WebAssembly: one worker reads the files and answers the views, and one is
// made for each command. Nothing leaves the browser.

import {Refusal, create as create_source} from "./source.js";
import {create as create_files} from "./web_files.js";
import {reason_of} from "./text.js";

// The module has 32 bits: no allocation is larger than 2 GiB, and the events of a file need more memory than the file.
const MOST_BYTES = 2 ** 31 - 2 ** 16;
const TOO_LARGE = "it needs more memory than a web page can use (4 GiB); the memreel program has no such limit: memreel view FILE";
const DEFECT = "memreel stopped while reading it; this is a bug in memreel";
const STOPPED = "stopped";
// After this time, what is computed can be stopped.
const LONG_MS = 8000;
// Answers over all blocks, which a picture does not wait for.
const SLOW = /^(answer|groups|icicle|list|whatif|diff)\b/;

/** @typedef {{id: number, url: string, signal: AbortSignal | null, answer(of: Response): void, fail(error: Error): void}} Wish */

/**
 * Returns the source of a page that has memreel in it.
 * @param {string} module the module as base64 of gzip @param {string} script the worker's @returns {Source}
 */
export function create(module, script) {
  const address = URL.createObjectURL(new Blob([script], {type: "text/javascript"}));
  const compiled = compile(module);
  // It is awaited where files are opened.
  compiled.catch(() => {});
  /** @type {Dropped[]} */
  let files = [];
  /** @type {Files} */
  let known = {files: [], version: ""};
  /** Which files the worker has read. @type {boolean[]} */
  let is_read = [];
  /** @type {Worker | null} */
  let view = null;
  /** @type {Wish[]} */
  let wishes = [];
  /** @type {Wish | null} */
  let running = null;
  /** Requests at which the module stopped. @type {Map<string, string>} */
  const refused = new Map();
  let n_asked = 0;
  /** When the worker was last heard of, or given work. */
  let since = 0;

  function begin() {
    view?.terminate();
    view = null;
    if (running) wishes.unshift(running);
    running = null;
    is_read = [];
    known = {...known, files: files.map(({name, failed}, at) => {
      const before = known.files[at];
      if (failed) return {name, state: "failed", error: failed};
      return before && before.state !== "reading" ? before : {name, state: "reading", read: 0, coarse: {n_events: 0, points: []}};
    })};
    const mine = files;
    compiled.then(module => {
      if (files !== mine) return;
      view = new Worker(address);
      view.onmessage = ({data}) => hear(data);
      view.onerror = event => fail_all(event.message || "the worker stopped");
      view.postMessage({module, open: files});
    }, error => fail_all(no_module(error)));
  }

  /** @param {string} why */
  function fail_all(why) {
    known = {...known, files: files.map(({name}) => ({name, state: "failed", error: why}))};
    for (const wish of wishes.splice(0)) wish.fail(new Refusal(why));
  }

  /** @param {any} data */
  function hear(data) {
    since = performance.now();
    if (data.files) {
      /** @type {Files} */
      const found = JSON.parse(data.files);
      is_read = found.files.map(of => of.state !== "reading");
      // What was shown stays while the files are read again.
      known = {...found, files: found.files.map((of, at) => is_read[at] || known.files[at].state === "reading" ? of : known.files[at])};
      if (is_read.every(Boolean)) changed();
    }
    if (data.trap) return stop(data);
    if (data.id === running?.id && running) {
      running.answer(new Response(data.bytes, {status: data.status}));
      running = null;
    }
    next();
  }

  // The module stopped: its file or request is refused from now on, and a new one goes on with the others.
  /** @param {{trap: string, stderr: string, reading: number | null}} of */
  function stop({trap, stderr, reading}) {
    const is_full = /memory allocation of|out of memory/i.test(stderr + trap);
    const file = files[reading ?? -1];
    const fault = fault_of(trap, stderr);
    const own = trap === STOPPED ? trap : null;
    if (file) files = files.map(of => of === file ? {...of, failed: own ?? (is_full ? TOO_LARGE : `${DEFECT}: ${fault}`)} : of);
    else if (running) {
      const why = own ?? (is_full ? "this answer needs more memory than a web page can use" : `memreel stopped while answering this; it is a bug in memreel: ${fault}`);
      refused.set(running.url, why);
      running.fail(new Refusal(why));
      running = null;
    } else return fail_all(trap);
    begin();
    changed();
  }

  function next() {
    if (running || !view) return;
    wishes = wishes.filter(wish => !wish.signal?.aborted);
    const open = wishes.filter(({url}) => [...url.matchAll(/[?&](?:file|other)=(\d+)/g)].every(([, file]) => is_read[Number(file)] !== false));
    const wish = open.find(({url}) => !SLOW.test(url)) ?? open[0];
    if (!wish || !is_read.length) return;
    wishes = wishes.filter(of => of !== wish);
    running = wish;
    since = performance.now();
    view.postMessage({id: wish.id, request: wish.url});
  }

  /** @param {string} url @param {RequestInit} options @returns {Promise<Response>} */
  function get(url, {signal = null}) {
    return new Promise((answer, fail) => {
      const why = refused.get(url);
      if (why) return fail(new Refusal(why));
      if (signal?.aborted) return fail(signal.reason);
      signal?.addEventListener("abort", () => fail(signal.reason), {once: true});
      wishes.push({id: n_asked++, url, signal, answer, fail});
      next();
    });
  }

  /**
   * Runs a command line of memreel on the dropped files, such as ["oom", "--json", "a.pickle"].
   * @param {string[]} words @param {Options} options @returns {Promise<Printed>}
   */
  async function command(words, {signal} = {}) {
    const module = await compiled;
    signal?.throwIfAborted();
    const worker = new Worker(address);
    try {
      return await new Promise((answer, fail) => {
        signal?.addEventListener("abort", () => fail(signal.reason), {once: true});
        worker.onerror = event => fail(new Refusal(event.message));
        worker.onmessage = ({data}) => {
          if (data.trap) return fail(new Refusal(/memory allocation of/.test(data.stderr) ? TOO_LARGE : `memreel stopped; this is a bug in memreel: ${fault_of(data.trap, data.stderr)}`));
          const [stdout, stderr] = [data.stdout, data.stderr].map(bytes => new TextDecoder().decode(bytes));
          answer({status: data.status, stdout, stderr, written: data.written});
        };
        worker.postMessage({module, id: 0, words, files: files.filter(of => of.file)});
      });
    } finally {
      worker.terminate();
    }
  }

  let changed = () => {};
  return {
    ...create_source(get),
    files: async () => known,
    async end() { throw new Refusal("no server is running for this page; close it"); },
    command,
    web: {
      connect(app, poll) {
        changed = poll;
        const reading = () => is_read.indexOf(false);
        const is_long = () => (running !== null || reading() >= 0) && performance.now() > since + LONG_MS;
        return create_files(app, add, command, is_long, () => {
          const file = reading();
          stop({trap: STOPPED, stderr: "", reading: file < 0 ? null : file});
        });
      },
    },
  };

  /** Opens more files. @param {File[]} dropped */
  async function add(dropped) {
    const more = await Promise.all(dropped.map(inflated));
    const names = new Set(files.map(of => of.name));
    /** @type {Dropped[]} */
    const added = more.map(file => ({name: free_name(file.name, names), file, ...(file.size > MOST_BYTES ? {failed: TOO_LARGE} : {})}));
    files = [...files, ...added];
    begin();
    changed();
  }
}

/** Returns why the module stopped: the message of its panic, if there is one. @param {string} trap @param {string} stderr */
const fault_of = (trap, stderr) => stderr.match(/panicked at .*\n(.*)/)?.[0].replace("\n", " ") ?? trap;

/** Returns the file in a file that gzip compressed, and any other as it is. @param {File} file */
async function inflated(file) {
  if (!file.name.endsWith(".gz") || file.name.endsWith(".pb.gz")) return file;
  let size = 0;
  /** @type {TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>} */
  const bounded = new TransformStream({transform(bytes, out) {
    size += bytes.length;
    if (size > MOST_BYTES) out.error(new Error(TOO_LARGE));
    else out.enqueue(bytes);
  }});
  try {
    const bytes = await new Response(file.stream().pipeThrough(new DecompressionStream("gzip")).pipeThrough(bounded)).blob();
    return new File([bytes], file.name.slice(0, -3));
  } catch {
    // memreel says what the file is.
    return file;
  }
}

/** Returns a name that no other file has, and that is not an option. @param {string} name @param {Set<string>} taken */
function free_name(name, taken) {
  const plain = name.replace(/^-/, "_").replaceAll("/", "_");
  const [, stem, ending] = /** @type {string[]} */ (plain.match(/^(.*?)(\.[^.]*)?$/s));
  let free = plain;
  for (let n = 2; taken.has(free); n += 1) free = `${stem}-${n}${ending ?? ""}`;
  taken.add(free);
  return free;
}

/** @param {string} text @returns {Promise<WebAssembly.Module>} */
async function compile(text) {
  const bytes = Uint8Array.from(atob(text.trim()), letter => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compileStreaming(new Response(plain, {headers: {"content-type": "application/wasm"}}));
}

/** @param {unknown} error */
const no_module = error => typeof WebAssembly === "undefined"
  ? "this browser has no WebAssembly, or it is turned off (in a lockdown mode, for example); use the memreel program instead: memreel view FILE"
  : `this browser cannot run memreel: ${reason_of(error)}`;
