#!/usr/bin/env python3
"""Records the heap of ripgrep: its output is unchanged, its snapshot valid, and its time beside other profilers'.

    benches/heap/ripgrep.py [--tree FOLDER] [--pattern TEXT] [--runs N] [--work FOLDER] [--memreel PROGRAM]

Fetches ripgrep from crates.io with cargo, and builds it four times: as it is, with `memreel::Heap` and with the crate dhat
as its allocator. Each is patched by two lines for the allocator and three in `main`. Prints one JSON object a line:

    {"case": "output", "is_equal": true, "lines": 5102}
    {"case": "validate", "findings": 0, "events": 250000}
    {"case": "plain", "seconds": 0.05, "slowdown": 1.0}       the fastest of N runs
    {"case": "heap_off", …}       a Heap that does not record
    {"case": "heap_none", …}      recording without stacks, not saved
    {"case": "heap_native", …}    recording with stacks, not saved
    {"case": "heap_saved", …}     the same with the snapshot written at the end, names looked up
    {"case": "heap_sampled", …}   one byte in 512 KiB, with stacks, not saved
    {"case": "dhat", …}           its file written at the end
    {"case": "heaptrack", …}      its file written by another process

Exits with 1 if the output differs or the snapshot breaks a rule.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

VERSION = "14.1.1"
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

HEAP = """
#[global_allocator]
static HEAP: memreel::Heap = memreel::Heap::new();

struct SaveAtTheEnd;

impl Drop for SaveAtTheEnd {
    fn drop(&mut self) {
        if let Some(path) = std::env::var_os("HEAP_SNAPSHOT") {
            memreel::save(path).expect("a snapshot");
        }
    }
}

fn record() -> SaveAtTheEnd {
    use memreel::recorder::{Context, Recording};
    let history = match std::env::var("HEAP_HISTORY").as_deref() {
        Ok("none") => Recording::all().context(Context::None),
        Ok("native") => Recording::all(),
        Ok("sampled") => Recording::all().sample_every(512 << 10),
        _ => return SaveAtTheEnd,
    };
    memreel::record_history(&history.max_entries(10_000_000)).expect("a reel");
    SaveAtTheEnd
}
"""

DHAT = """
#[global_allocator]
static HEAP: dhat::Alloc = dhat::Alloc;

fn record() -> dhat::Profiler {
    dhat::Profiler::builder().file_name(std::env::var_os("DHAT_FILE").expect("a file")).build()
}
"""


def run(command, **options):
    return subprocess.run(command, check=True, **options)


def source(work):
    """Returns the folder of ripgrep's source, which cargo fetched."""
    stub = work / "stub"
    (stub / "src").mkdir(parents=True, exist_ok=True)
    (stub / "src/lib.rs").write_text("")
    (stub / "Cargo.toml").write_text(
        '[package]\nname = "stub"\nversion = "0.0.0"\nedition = "2021"\n'
        f'[dependencies]\nripgrep = "={VERSION}"\n[workspace]\n'
    )
    # ripgrep has no library, so cargo would not build it, but fetches and unpacks it.
    run(["cargo", "fetch", "--manifest-path", stub / "Cargo.toml"], stderr=subprocess.DEVNULL)
    home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
    return next(home.glob(f"registry/src/*/ripgrep-{VERSION}"))


def build(work, name, dependency, code):
    """Builds ripgrep with the given dependency and code; returns the program."""
    folder = work / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source(work), folder)
    manifest = folder / "Cargo.toml"
    # With names of lines, as any profiler needs.
    manifest.write_text(
        manifest.read_text() + dependency + '\n[profile.bench-heap]\ninherits = "release"\ndebug = "line-tables-only"\n'
        "\n[workspace]\n"
    )
    if code:
        main = folder / "crates/core/main.rs"
        text = main.read_text()
        start = "fn main() -> ExitCode {\n"
        assert start in text, "ripgrep's main has changed"
        text = text.replace(start, start + "    let _recorded = record();\n")
        first = text.index("\nuse ")
        main.write_text(text[:first] + code + text[first:])
    target = work / "target"
    command = ["cargo", "build", "--profile", "bench-heap", "--manifest-path", manifest, "--target-dir", target]
    run(command, stderr=subprocess.DEVNULL if os.environ.get("QUIET") else None)
    program = work / f"rg-{name}"
    shutil.copy(target / "bench-heap/rg", program)
    return program


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tree", default=str(REPOSITORY))
    parser.add_argument("--pattern", default=r"fn \w+\(")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--work", default=os.path.join(tempfile.gettempdir(), "memreel-ripgrep"))
    target = REPOSITORY / os.environ.get("CARGO_TARGET_DIR", "target")
    parser.add_argument("--memreel", default=str(target / "release/memreel"))
    options = parser.parse_args()
    work = pathlib.Path(options.work)
    plain = build(work, "plain", "", "")
    heap = build(work, "heap", f'\n[dependencies.memreel]\npath = "{REPOSITORY}"\n', HEAP)
    dhat = build(work, "dhat", '\n[dependencies.dhat]\nversion = "0.3.3"\n', DHAT)
    search = ["--no-config", "--sort", "path", "--line-number", options.pattern, options.tree]

    def started(program, **variables):
        """Runs a program; returns the seconds it took and its output."""
        environment = {**os.environ, "DHAT_FILE": str(work / "dhat.json"), **variables}
        start = time.perf_counter()
        done = subprocess.run([*program, *search], env=environment, capture_output=True, check=False)
        return time.perf_counter() - start, done.stdout

    snapshot = str(work / "heap.pickle")
    expected = started([plain])[1]
    got = started([heap], HEAP_HISTORY="native", HEAP_SNAPSHOT=snapshot)[1]
    is_equal = expected == got and len(expected) > 0
    print(json.dumps({"case": "output", "is_equal": is_equal, "lines": expected.count(b"\n")}), flush=True)
    checked = subprocess.run([options.memreel, "validate", "--json", snapshot], capture_output=True, check=False)
    is_valid = checked.returncode == 0
    report = checked.stdout.decode(errors="replace").strip()[:500] or checked.stderr.decode(errors="replace")[:500]
    print(json.dumps({"case": "validate", "is_valid": is_valid, "report": report}), flush=True)

    cases = {
        "plain": ([plain], {}),
        "heap_off": ([heap], {}),
        "heap_none": ([heap], {"HEAP_HISTORY": "none"}),
        "heap_native": ([heap], {"HEAP_HISTORY": "native"}),
        "heap_saved": ([heap], {"HEAP_HISTORY": "native", "HEAP_SNAPSHOT": snapshot}),
        "heap_sampled": ([heap], {"HEAP_HISTORY": "sampled"}),
        "dhat": ([dhat], {}),
    }
    if shutil.which("heaptrack"):
        cases["heaptrack"] = (["heaptrack", "--raw", "-o", str(work / "heaptrack"), plain], {})
    else:
        print(json.dumps({"case": "heaptrack", "missing": "heaptrack was not found"}))
    seconds = {name: [] for name in cases}
    for _ in range(options.runs):
        for name, (program, variables) in cases.items():
            seconds[name].append(started(program, **variables)[0])
    base = min(seconds["plain"])
    for name, times in seconds.items():
        result = {"case": name, "seconds": round(min(times), 4), "slowdown": round(min(times) / base, 3)}
        print(json.dumps(result), flush=True)
    sys.exit(0 if is_equal and is_valid else 1)


main()
