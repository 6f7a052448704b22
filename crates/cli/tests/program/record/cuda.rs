//! Programs that use a stand-in for NVIDIA's driver: in C, in Rust with cudarc, and in Python.

#![forbid(unsafe_code)]

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use serde_json::Value;
use tempfile::TempDir;

use super::{Run, cc, live, python, record, source};
use crate::repository;

/// The first address of memory that the driver has for itself.
const OF_THE_DRIVER: u64 = 1 << 52;

/// Builds the stand-ins and the programs in C, and returns their folder.
fn mock() -> &'static Path {
    static BUILT: OnceLock<TempDir> = OnceLock::new();
    let build = || {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let shared = |name: &str, from: &str| {
            let soname = format!("-Wl,-soname,{name}");
            cc(&["-shared", "-fPIC", &soname, "-o", &at(name), &source(from), "-lpthread", "-ldl"]);
        };
        shared("libcuda.so.1", "cuda.c");
        shared("libnvidia-ml.so.1", "nvml.c");
        // What programs are linked with.
        symlink("libcuda.so.1", at("libcuda.so")).unwrap();
        let libraries = ["-ldl", "-lpthread"];
        cc(&[&["-o", &at("client"), &source("client.c")], &libraries[..]].concat());
        cc(&[&["-DLINKED", "-o", &at("linked"), &source("client.c"), &at("libcuda.so.1")], &libraries[..]]
            .concat());
        folder
    };
    BUILT.get_or_init(build).path()
}

fn client(name: &str) -> String {
    mock().join(name).display().to_string()
}

/// Records a program that finds the stand-in.
fn recorded(options: &[&str], words: &[&str]) -> Run {
    record(&[options, &["-o", "run.pickle"]].concat(), words).env("LD_LIBRARY_PATH", mock()).run()
}

/// A handle that is released twice, and a call that fails often.
#[test]
fn calls_that_failed_have_a_line() {
    let text = "#include <dlfcn.h>\n#include <stdint.h>\nint main(void) {\n\
                void *driver = dlopen(\"libcuda.so.1\", RTLD_NOW);\n\
                int (*create)(uint64_t *, unsigned long, int *, unsigned long long) = dlsym(driver, \
                \"cuMemCreate\");\n\
                int (*release)(uint64_t) = dlsym(driver, \"cuMemRelease\");\n\
                int prop[32] = {1, 0, 1, 0}; uint64_t handle = 0, other = 0;\n\
                if (create(&handle, 2 << 20, prop, 0) || create(&other, 2 << 20, prop, 0)) return 9;\n\
                int n = release(handle) == 0;\n\
                for (int i = 0; i < 40; i++) n += release(handle) == 1;\n\
                return n == 41 ? 0 : n; }\n";
    let start = record(&["-o", "run.pickle"], &["./releases"]).env("LD_LIBRARY_PATH", mock());
    fs::write(start.path("releases.c"), text).unwrap();
    let (source, program) = (start.path("releases.c"), start.path("releases"));
    cc(&["-o", program.to_str().unwrap(), source.to_str().unwrap(), "-ldl"]);
    let run = start.run();
    assert_eq!(run.status, Some(0), "{}", run.err);
    let line = "cuMemRelease failed 32 times or more (CUDA_ERROR_INVALID_VALUE): what it names was already \
                freed";
    assert!(run.err.contains(line), "{}", run.err);
    let file: Value =
        serde_json::from_slice(&fs::read(run.folder.path().join("run.memreel")).unwrap()).unwrap();
    assert_eq!(file["failed_calls"][0]["n_times"], 32, "{file}");
}

/// The addresses and sizes that a program printed after the word `block`, rising.
fn printed(run: &Run) -> Vec<(u64, u64)> {
    let numbers = |line: &str| {
        let mut words = line.strip_prefix("block ")?.split(' ').map(|word| word.parse::<u64>().unwrap());
        Some((words.next().unwrap(), words.next().unwrap()))
    };
    let mut all: Vec<(u64, u64)> = run.out.lines().filter_map(numbers).collect();
    all.sort_unstable();
    all
}

/// The blocks of the first GPU in a snapshot, rising.
fn blocks(run: &Run, name: &str) -> Vec<(u64, u64)> {
    let snapshot = run.snapshot(name);
    let own = live(&snapshot).filter(|block| block.address.0 < OF_THE_DRIVER);
    let mut all: Vec<(u64, u64)> = own.map(|block| (block.address.0, block.requested_size)).collect();
    all.sort_unstable();
    all
}

/// Asserts that the snapshot has what the program printed, and standard error the table.
fn assert_recorded(run: &Run) {
    assert_eq!(run.status, Some(0), "{}", run.err);
    let printed = printed(run);
    assert!(!printed.is_empty() && blocks(run, "run.pickle") == printed, "{} {}", run.out, run.err);
    assert!(run.err.contains("device 0, Mock 0"), "{}", run.err);
    for row in ["driver:context ", "other processes ", "sum ", "unexplained ", "used "] {
        assert!(run.err.lines().any(|line| line.starts_with(row)), "{row}: {}", run.err);
    }
    let lines = run.lines_of_processes();
    assert!(lines.len() == 1 && lines[0].ends_with(", run.pickle"), "{}", run.err);
}

#[test]
fn a_program_in_c_is_recorded_however_it_finds_the_driver() {
    for (program, way) in [("client", "dlsym"), ("client", "asked"), ("linked", "linked")] {
        let run = recorded(&[], &[&client(program), way, "blocks"]);
        assert_recorded(&run);
        let shown = run.err.lines().find(|line| line.starts_with("program ")).unwrap_or_default();
        assert!(shown.contains("MiB") && shown.contains("client.c:"), "{}", run.err);
    }
}

/// The rows of the table add up to what the device reports as used.
#[test]
fn the_table_adds_up() {
    let run = recorded(&["--json"], &[&client("client"), "dlsym", "kinds"]);
    assert_eq!(run.status, Some(0), "{}", run.err);
    let lines: Vec<Value> = run.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let table = lines.iter().find(|line| line["name"] == "Mock 0").unwrap();
    for at in ["now", "peak"] {
        let key = format!("{at}_bytes");
        let sum: i64 = table["rows"].as_array().unwrap().iter().filter_map(|row| row[&key].as_i64()).sum();
        assert_eq!(sum, table[format!("used_{at}_bytes")], "{table}");
    }
    let of = |owner: &str| {
        let row = table["rows"].as_array().unwrap().iter().find(|row| row["owner"] == owner);
        row.and_then(|row| row["now_bytes"].as_i64())
    };
    let of_driver = ["driver:context", "driver:module", "driver:graph"].map(of);
    assert_eq!(of_driver, [500, 4, 6].map(|mib| Some(mib << 20)), "{table}");
    assert!(of("unexplained").unwrap().abs() < 2 << 20, "{table}");
}

/// A shell that starts a program of CUDA recorded nothing: it has no file and no line.
#[test]
fn only_processes_that_recorded_have_files() {
    let script = format!("{} dlsym blocks; exit 3", client("client"));
    let run = recorded(&[], &["sh", "-c", &script]);
    assert_eq!(run.status, Some(3));
    let files = run.files();
    let [file] = &files[..] else { panic!("{files:?} {}", run.err) };
    assert!(file.starts_with("run-"), "{file}");
    assert_eq!(blocks(&run, file), printed(&run));
    assert_eq!(run.lines_of_processes().len(), 1, "{}", run.err);
    assert!(!run.err.contains("asked no GPU"), "{}", run.err);
}

#[test]
fn a_killed_program_has_every_block() {
    let run = recorded(&[], &[&client("client"), "dlsym", "killed"]);
    assert_eq!(run.status, Some(137));
    assert_eq!((printed(&run).len(), blocks(&run, "run.pickle")), (1000, printed(&run)));
    let run = recorded(&[], &[&client("client"), "dlsym", "closed"]);
    assert_eq!(run.status, Some(0));
    let recorded = blocks(&run, "run.pickle");
    assert!(printed(&run).iter().all(|block| recorded.contains(block)), "{} {}", run.out, run.err);
}

/// The driver through ctypes, with the lines of the script.
#[test]
fn a_program_in_python_is_recorded() {
    let Some(python) = python() else { return };
    const SCRIPT: &str = "
import ctypes
cuda = ctypes.CDLL('libcuda.so.1')
def allocate(n):
    at = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(n)) == 0
    print('block', at.value, n)
    return at
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
kept = [allocate(n << 20) for n in range(1, 8)]
gone = ctypes.c_uint64()
assert cuda.cuMemAlloc_v2(ctypes.byref(gone), ctypes.c_size_t(9 << 20)) == 0
assert cuda.cuMemFree_v2(gone) == 0
";
    let start = record(&["--stacks", "all", "-o", "run.pickle"], &[&*python, "script.py"]);
    fs::write(start.path("script.py"), SCRIPT).unwrap();
    let run = start.env("LD_LIBRARY_PATH", mock()).run();
    let script = run.folder.path().join("script.py");
    fs::remove_file(script).unwrap();
    assert_recorded(&run);
    let snapshot = run.snapshot("run.pickle");
    for block in live(&snapshot).filter(|block| block.address.0 < OF_THE_DRIVER) {
        let frames: Vec<_> = snapshot.stacks.frames(block.stack.unwrap()).collect();
        let is_named = frames.iter().any(|frame| &*frame.name == "allocate" && frame.line == 6);
        assert!(is_named, "{frames:?}");
    }
}

/// Builds the program that uses cudarc, in a way of finding the driver; `None` if cudarc cannot be had.
fn with_cudarc(way: &str) -> Option<PathBuf> {
    // A target folder of its own, and a driver to link with that is at the same place each time: cudarc is built once.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cudarc-{way}"));
    let stub = target.join("stub");
    fs::create_dir_all(&stub).unwrap();
    fs::copy(mock().join("libcuda.so.1"), stub.join("libcuda.so")).unwrap();
    let triple = memreel_testing::triple();
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--features", way, "--manifest-path"])
        .arg(repository("crates/cli/tests/cudarc/Cargo.toml"))
        .args(triple.iter().flat_map(|triple| ["--target", triple]))
        .arg("--target-dir")
        .arg(&target)
        .env("RUSTFLAGS", format!("-L native={}", stub.display()))
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&built.stderr);
    if message.contains("failed to download") || message.contains("failed to get") {
        println!("skipped: no cudarc: {message}");
        return None;
    }
    assert!(built.status.success(), "{message}");
    Some(target.join(triple.unwrap_or_default()).join("debug/memreel-test-cudarc"))
}

#[test]
fn a_program_with_cudarc_is_recorded_in_both_ways_of_linking() {
    for way in ["dynamic-loading", "dynamic-linking"] {
        let Some(program) = with_cudarc(way) else { return };
        let run = recorded(&[], &[program.to_str().unwrap()]);
        assert_recorded(&run);
        let shown = run.err.lines().find(|line| line.starts_with("program ")).unwrap_or_default();
        assert!(shown.contains("MiB"), "{way}: {}", run.err);
    }
}
