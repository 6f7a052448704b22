// The worker of a page that has memreel in it: a system (WASI) of the files that were dropped, and the module that runs on it.
// It is a script, not a module: web.js makes a worker of its text.

// Numbers of errors of WASI.
const FAULT = {none: 0, badf: 8, exist: 20, inval: 28, io: 29, isdir: 31, noent: 44, nosys: 52, notdir: 54};
// What is read of a file at once: many small reads of the browser would take long.
const CHUNK = 1 << 22;
const ROOT = 3;

/** The end of a command, which its exit status is thrown with. */
class Exit {
  /** @param {number} status */
  constructor(status) { this.status = status; }
}

/** A file that the module wrote. */
class Written {
  bytes = new Uint8Array(1 << 12);
  size = 0;

  /** @param {number} at @param {Uint8Array} bytes */
  write(at, bytes) {
    const end = at + bytes.length;
    if (end > this.bytes.length) {
      const more = new Uint8Array(Math.max(end, 2 * this.bytes.length));
      more.set(this.bytes.subarray(0, this.size));
      this.bytes = more;
    }
    this.bytes.set(bytes, at);
    this.size = Math.max(this.size, end);
  }

  /** @param {number} at @param {number} count */
  read(at, count) { return this.bytes.subarray(at, Math.min(at + count, this.size)); }

  whole() { return this.bytes.slice(0, this.size); }
}

/** A file that was dropped; it is read as it is needed. */
class OnDisk {
  #from = 0;
  #chunk = new Uint8Array();
  #reader = new FileReaderSync();

  /** @param {Blob} file */
  constructor(file) {
    this.file = file;
    this.size = file.size;
  }

  /** @param {number} at @param {number} count */
  read(at, count) {
    const is_here = at >= this.#from && at < this.#from + this.#chunk.length;
    if (!is_here && at < this.size) {
      this.#from = at;
      this.#chunk = new Uint8Array(this.#reader.readAsArrayBuffer(this.file.slice(at, at + Math.max(count, CHUNK))));
    }
    return this.#chunk.subarray(at - this.#from, at - this.#from + count);
  }
}

/**
 * A module that runs: its files, its words, what it is told and what it printed.
 */
class Running {
  /** @type {Uint8Array} */ stdin = new Uint8Array();
  stdout = new Written();
  stderr = new Written();
  /** @type {Map<number, {file: Written | OnDisk | null, at: number, is_append?: boolean}>} */
  #open = new Map([[ROOT, {file: null, at: 0}]]);
  #data = new DataView(new ArrayBuffer(0));

  /**
   * @param {WebAssembly.Module} module @param {string[]} words @param {{name: string, file: Blob}[]} files @param {() => void} heard
   */
  constructor(module, words, files, heard) {
    this.words = words.map(word => new TextEncoder().encode(`${word}\0`));
    /** @type {Map<string, Written | OnDisk>} */
    this.files = new Map(files.map(({name, file}) => [name, new OnDisk(file)]));
    const calls = /** @type {Record<string, Function>} */ (this.#calls());
    /** @type {Record<string, Record<string, Function>>} */
    const imports = {page: {heard}};
    for (const {module: of, name} of WebAssembly.Module.imports(module)) {
      if (of === "page") continue;
      const call = calls[name];
      // A pointer beyond 2 GiB arrives as a negative number.
      (imports[of] ??= {})[name] = call ? (/** @type {any[]} */ ...all) => call(...all.map(one => typeof one === "number" ? one >>> 0 : one)) : () => FAULT.nosys;
    }
    this.exports = /** @type {Record<string, any>} */ (new WebAssembly.Instance(module, /** @type {any} */ (imports)).exports);
    this.exports.__wasm_call_ctors();
  }

  /** Answers a request of the page. @param {string} request @returns {{status: number, bytes: Uint8Array}} */
  ask(request) {
    this.tell(request);
    this.stdout = new Written();
    const status = this.exports.memreel_answer();
    return {status, bytes: this.stdout.whole()};
  }

  /** @param {string} text */
  tell(text) { this.stdin = new TextEncoder().encode(text); }

  get data() {
    if (this.#data.buffer !== this.exports.memory.buffer) this.#data = new DataView(this.exports.memory.buffer);
    return this.#data;
  }

  /** @param {number} at @param {number} count */
  bytes(at, count) { return new Uint8Array(this.data.buffer, at, count); }

  /** Returns the name of a path: there is one folder. @param {number} at @param {number} count */
  #name(at, count) {
    const path = new TextDecoder().decode(this.bytes(at, count));
    return path.split("/").filter(part => part && part !== ".").join("/");
  }

  /** @param {number} at @param {number} kind 3 is a folder, 4 a file @param {Written | OnDisk | null} file */
  #describe(at, kind, file) {
    this.bytes(at, 64).fill(0);
    this.data.setUint8(at + 16, kind);
    this.data.setBigUint64(at + 24, 1n, true);
    this.data.setBigUint64(at + 32, BigInt(file?.size ?? 0), true);
    return FAULT.none;
  }

  /** @param {number} at @param {number} n @param {(place: Uint8Array) => number} move Returns how many bytes it moved. */
  #each(at, n, move) {
    let count = 0;
    for (let vector = at; vector < at + 8 * n; vector += 8) {
      const length = this.data.getUint32(vector + 4, true);
      const moved = length ? move(this.bytes(this.data.getUint32(vector, true), length)) : 0;
      count += moved;
      if (moved < length) break;
    }
    return count;
  }

  /** @param {number} counts @param {number} size @param {Uint8Array[]} texts */
  #sizes(counts, size, texts) {
    this.data.setUint32(counts, texts.length, true);
    this.data.setUint32(size, texts.reduce((sum, text) => sum + text.length, 0), true);
    return FAULT.none;
  }

  // The calls of WASI (preview 1), by their names.
  #calls() {
    /** @typedef {number} N */
    /** @param {N} fd */
    const opened = fd => this.#open.get(fd);
    return {
      args_sizes_get: (/** @type {N} */ count, /** @type {N} */ size) => this.#sizes(count, size, this.words),
      args_get: (/** @type {N} */ places, /** @type {N} */ at) => {
        for (const word of this.words) {
          this.data.setUint32(places, at, true);
          this.bytes(at, word.length).set(word);
          places += 4;
          at += word.length;
        }
        return FAULT.none;
      },
      environ_sizes_get: (/** @type {N} */ count, /** @type {N} */ size) => this.#sizes(count, size, []),
      environ_get: () => FAULT.none,
      clock_time_get: (/** @type {N} */ id, /** @type {bigint} */ _precision, /** @type {N} */ at) => {
        this.data.setBigUint64(at, BigInt(Math.round((id ? performance.now() : Date.now()) * 1e6)), true);
        return FAULT.none;
      },
      random_get: (/** @type {N} */ at, /** @type {N} */ count) => {
        crypto.getRandomValues(new Uint8Array(this.data.buffer, at, count));
        return FAULT.none;
      },
      sched_yield: () => FAULT.none,
      proc_exit: (/** @type {N} */ status) => { throw new Exit(status); },
      fd_prestat_get: (/** @type {N} */ fd, /** @type {N} */ at) => {
        if (fd !== ROOT) return FAULT.badf;
        this.data.setUint32(at, 0, true);
        this.data.setUint32(at + 4, 1, true);
        return FAULT.none;
      },
      fd_prestat_dir_name: (/** @type {N} */ _fd, /** @type {N} */ at) => {
        this.data.setUint8(at, 47);
        return FAULT.none;
      },
      fd_fdstat_get: (/** @type {N} */ fd, /** @type {N} */ at) => {
        if (fd > 2 && !opened(fd)) return FAULT.badf;
        this.bytes(at, 24).fill(255);
        this.data.setUint32(at, 0, true);
        this.data.setUint8(at, opened(fd)?.file === null ? 3 : 4);
        return FAULT.none;
      },
      fd_fdstat_set_flags: () => FAULT.none,
      fd_filestat_get: (/** @type {N} */ fd, /** @type {N} */ at) => {
        const of = opened(fd);
        if (fd > 2 && !of) return FAULT.badf;
        return this.#describe(at, of?.file === null ? 3 : 4, of?.file ?? null);
      },
      fd_filestat_set_size: (/** @type {N} */ fd, /** @type {bigint} */ size) => {
        const file = opened(fd)?.file;
        if (!(file instanceof Written)) return FAULT.badf;
        if (Number(size) > file.size) file.write(file.size, new Uint8Array(Number(size) - file.size));
        file.size = Number(size);
        return FAULT.none;
      },
      fd_filestat_set_times: () => FAULT.none,
      fd_sync: () => FAULT.none,
      fd_datasync: () => FAULT.none,
      fd_advise: () => FAULT.none,
      fd_close: (/** @type {N} */ fd) => (this.#open.delete(fd) ? FAULT.none : FAULT.badf),
      fd_seek: (/** @type {N} */ fd, /** @type {bigint} */ offset, /** @type {N} */ whence, /** @type {N} */ at) => {
        const of = opened(fd);
        if (!of?.file) return FAULT.badf;
        const next = [0, of.at, of.file.size][whence] + Number(offset);
        if (!(next >= 0)) return FAULT.inval;
        of.at = next;
        this.data.setBigUint64(at, BigInt(next), true);
        return FAULT.none;
      },
      fd_read: (/** @type {N} */ fd, /** @type {N} */ vectors, /** @type {N} */ n, /** @type {N} */ at) => {
        const of = opened(fd);
        if (fd && !of) return FAULT.badf;
        if (of?.file === null) return FAULT.isdir;
        try {
          const count = this.#each(vectors, n, place => {
            const bytes = of?.file ? of.file.read(of.at, place.length) : this.stdin.subarray(0, place.length);
            place.set(bytes);
            if (of) of.at += bytes.length;
            else this.stdin = this.stdin.subarray(bytes.length);
            return bytes.length;
          });
          this.data.setUint32(at, count, true);
          return FAULT.none;
        } catch {
          // The file was changed or removed after it was dropped.
          return FAULT.io;
        }
      },
      fd_write: (/** @type {N} */ fd, /** @type {N} */ vectors, /** @type {N} */ n, /** @type {N} */ at) => {
        const of = opened(fd);
        const file = fd === 1 ? this.stdout : fd === 2 ? this.stderr : of?.file;
        if (!(file instanceof Written)) return FAULT.badf;
        const count = this.#each(vectors, n, bytes => {
          const begin = of && !of.is_append ? of.at : file.size;
          file.write(begin, bytes);
          if (of) of.at = begin + bytes.length;
          return bytes.length;
        });
        this.data.setUint32(at, count, true);
        return FAULT.none;
      },
      path_filestat_get: (/** @type {N} */ _fd, /** @type {N} */ _flags, /** @type {N} */ path, /** @type {N} */ count, /** @type {N} */ at) => {
        const name = this.#name(path, count);
        const file = this.files.get(name);
        return !name || file ? this.#describe(at, name ? 4 : 3, file ?? null) : FAULT.noent;
      },
      path_open: (/** @type {N} */ _fd, /** @type {N} */ _look, /** @type {N} */ path, /** @type {N} */ count, /** @type {N} */ flags, /** @type {bigint} */ _rights, /** @type {bigint} */ _more, /** @type {N} */ mode, /** @type {N} */ at) => {
        const [is_new, is_folder, is_only_new, is_cut] = [1, 2, 4, 8].map(flag => Boolean(flags & flag));
        const name = this.#name(path, count);
        let file = name ? this.files.get(name) : null;
        if (is_folder && name) return file ? FAULT.notdir : FAULT.noent;
        if (file && is_only_new) return FAULT.exist;
        if (file === undefined && !is_new) return FAULT.noent;
        if (file === undefined || (file && is_cut)) this.files.set(name, file = new Written());
        const fd = Math.max(...this.#open.keys()) + 1;
        this.#open.set(fd, {file, at: 0, is_append: Boolean(mode & 1)});
        this.data.setUint32(at, fd, true);
        return FAULT.none;
      },
      path_rename: (/** @type {N} */ _fd, /** @type {N} */ path, /** @type {N} */ count, /** @type {N} */ _to, /** @type {N} */ next, /** @type {N} */ size) => {
        const [name, file] = [this.#name(path, count), this.files.get(this.#name(path, count))];
        if (!file) return FAULT.noent;
        this.files.delete(name);
        this.files.set(this.#name(next, size), file);
        return FAULT.none;
      },
      path_unlink_file: (/** @type {N} */ _fd, /** @type {N} */ path, /** @type {N} */ count) => (this.files.delete(this.#name(path, count)) ? FAULT.none : FAULT.noent),
    };
  }
}

const page = /** @type {any} */ (self);
/** @type {WebAssembly.Module} */
let module;
/** @type {Running | null} */
let view = null;
/** The file that is read. @type {number | null} */
let reading = null;
let was_heard = 0;

/** @param {Written} out */
const text_of = out => new TextDecoder().decode(out.whole());

// Says what the view knows of its files. While one is read, at most ten times a second.
function say_files() {
  const now = performance.now();
  if (!view || (reading !== null && now < was_heard + 100)) return;
  was_heard = now;
  page.postMessage({files: new TextDecoder().decode(view.ask("files").bytes)});
}

/** Reads a file, and the next one after the requests that have come meanwhile. @param {number} at @param {number} n */
function read(at, n) {
  if (!view || at >= n) return;
  reading = at;
  guarded({}, () => view?.exports.memreel_read(at));
  reading = null;
  say_files();
  setTimeout(() => read(at + 1, n));
}

/** Does a work; if the module stops for a fault, the page hears of it and of the file. @param {{id?: number}} of @param {() => void} work */
function guarded(of, work) {
  try {
    work();
  } catch (error) {
    page.postMessage({...of, trap: String(error), stderr: view ? text_of(view.stderr) : "", reading});
    view = null;
  }
}

/** @param {{id: number, words: string[], files: {name: string, file: File}[]}} command */
function run({id, words, files}) {
  let status;
  const running = view = new Running(module, ["memreel", ...words], files, () => {});
  try {
    status = running.exports.memreel_run();
  } catch (error) {
    if (!(error instanceof Exit)) throw error;
    status = error.status;
  }
  const written = [...running.files].flatMap(([name, file]) => (file instanceof Written ? [{name, bytes: file.whole()}] : []));
  page.postMessage({id, status, stdout: running.stdout.whole(), stderr: running.stderr.whole(), written});
}

page.onmessage = (/** @type {{data: any}} */ {data}) => {
  if (data.module) module = data.module;
  if (data.words) guarded(data, () => run(data));
  if (data.open) {
    /** @type {{name: string, file: File, failed?: string}[]} */
    const files = data.open;
    guarded({}, () => {
      const opened = view = new Running(module, ["memreel", ...files.map(of => of.name)], files, say_files);
      files.forEach(({failed}, at) => {
        if (!failed) return;
        opened.tell(failed);
        opened.exports.memreel_fail(at);
      });
      say_files();
    });
    setTimeout(() => read(0, files.length));
  }
  if (data.request) guarded({id: data.id}, () => {     if (!view) return;
    const answer = view.ask(data.request);
    page.postMessage({id: data.id, ...answer}, [answer.bytes.buffer]);
  });
};
