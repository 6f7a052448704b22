//! Every command of the program on a snapshot of 1,000,000 entries, beside CPython and PyTorch's tool.
//!
//! ```text
//! cargo bench --bench cli                             a table
//! cargo bench --bench cli -- --json                   one JSON object a line
//! cargo bench --bench cli -- --ten-million [--json]   10,000,000 entries, only memreel's own layout
//! cargo bench --bench cli -- slim merge               only the commands of these names
//! ```
//!
//! Each figure is the median of three runs of the program as its users start it. Standard output is discarded;
//! snapshots go to a temporary folder, flushed to its disk.
//! `layout` is `shared` for the file that memreel writes (`shared10m` for the larger one) and `unshared`
//! for the same snapshot in PyTorch's layout. `cpu_seconds` varies less with other work on the machine.
//! `peak_rss_bytes` is the most memory resident at once, including the mapped file.
//! The unshared file and CPython's `pickle.load` need python3; the figures of `_memory_viz.py` need its path in
//! `MEMREEL_MEMORY_VIZ`. On 2 cores of 4.5 GHz the bench takes about five minutes.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use memreel_snapshot::pickle;

#[allow(dead_code)]
#[path = "../../../benches/million/mod.rs"]
mod million;

const N_RUNS: usize = 3;

/// Makes the unshared file if the number of runs is 0.
const PYTHON: &str = include_str!("../../../benches/pickle.py");

/// The arguments before the file, and how often the file is given: twice to commands that compare or join. `OUT`
/// stands for a file in the temporary folder, `FOLDER` for that folder.
const COMMANDS: &[(&[&str], usize)] = &[
    (&["stats"], 1),
    (&["trace"], 1),
    (&["trace", "--pytorch"], 1),
    (&["segments", "--folded"], 1),
    (&["memory", "--folded"], 1),
    (&["top"], 1),
    (&["top", "--by", "function"], 1),
    (&["top", "--tree"], 1),
    (&["at", "500000"], 1),
    (&["leaks"], 1),
    (&["churn"], 1),
    (&["oom"], 1),
    (&["fragmentation"], 1),
    (&["timeline"], 1),
    (&["timeline", "--csv"], 1),
    (&["gate", "--max-peak", "1TiB"], 1),
    (&["diff"], 2),
    (&["compare"], 2),
    (&["validate"], 1),
    (&["fix", "-o", OUT], 1),
    (&["slim", "--depth", "8", "-o", OUT], 1),
    (&["slim", "--events", "400000..600000", "-o", OUT], 1),
    (&["slim", "--time", "3s..4s", "-o", OUT], 1),
    (&["slim", "--min-size", "200KiB", "-o", OUT], 1),
    (&["slim", "--anonymise", "-o", OUT], 1),
    (&["split", "-o", FOLDER], 1),
    (&["merge", "--in-order", "-o", OUT], 2),
    (&["convert", "--to", "json"], 1),
    (&["convert", "--to", "pickle", "-o", OUT], 1),
    (&["convert", "--to", "pprof"], 1),
    (&["convert", "--to", "perfetto"], 1),
    (&["convert", "--to", "folded"], 1),
    (&["convert", "--to", "csv"], 1),
    (&["convert", "--to", "csv", "--stacks"], 1),
];

const OUT: &str = "OUT";
const FOLDER: &str = "FOLDER";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [option, n_events, path] = &arguments[..]
        && option == MAKE
    {
        let snapshot = million::synthetic_of(n_events.parse().expect("a number"));
        return pickle::save(&snapshot, path).expect("the temporary folder takes it");
    }
    let has = |option: &str| arguments.iter().any(|argument| argument == option);
    let (is_json, is_large) = (has("--json"), has("--ten-million"));
    let names: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let is_asked = |command: &[&str]| names.is_empty() || names.iter().any(|name| *name == command[0]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [shared, unshared] = ["shared.pickle", "unshared.pickle"].map(|name| folder.path().join(name));
    let n_events = if is_large { 10 * million::N_EVENTS } else { million::N_EVENTS };
    make_shared(n_events, &shared);
    let mut files = vec![(if is_large { "shared10m" } else { "shared" }, shared.as_path())];
    if is_large {
        // CPython would need 20 GB to make the other layout, and the file would be larger than memreel reads.
    } else if make_unshared(&shared, &unshared) {
        files.push(("unshared", unshared.as_path()));
    } else {
        eprintln!("skipped CPython and the unshared layout: python3 is missing");
    }
    for (layout, file) in &files {
        for (words, n_files) in COMMANDS.iter().filter(|(words, _)| is_asked(words)) {
            let mut command = Command::new(env!("CARGO_BIN_EXE_memreel"));
            for word in *words {
                match *word {
                    OUT => command.arg(folder.path().join("out.pickle")),
                    FOLDER => command.arg(folder.path()),
                    word => command.arg(word),
                };
            }
            command.args(vec![file; *n_files]);
            let shown: Vec<&str> =
                words.iter().copied().filter(|word| !["-o", OUT, FOLDER].contains(word)).collect();
            print(&shown.join(" "), "memreel", layout, &mut command, is_json);
        }
        if files.len() == 2 && names.is_empty() {
            python(layout, file, is_json);
        }
    }
}

/// The option with which this program only makes the file.
const MAKE: &str = "--make";

/// Makes the file in another process: memory resident in this one would count for its children too, which begin as
/// copies of it.
fn make_shared(n_events: usize, path: &Path) {
    let this = std::env::current_exe().expect("the program's own path");
    let made = Command::new(this).arg(MAKE).arg(n_events.to_string()).arg(path).status();
    assert!(made.is_ok_and(|status| status.success()), "the file could not be made");
}

fn make_unshared(shared: &Path, unshared: &Path) -> bool {
    let made = Command::new("python3").args(["-c", PYTHON]).args([shared, unshared]).arg("0").status();
    made.is_ok_and(|status| status.success())
}

/// Measures CPython on the same file, and PyTorch's tool if its path is known.
fn python(layout: &str, file: &Path, is_json: bool) {
    let mut load = Command::new("python3");
    load.args(["-c", "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))"]).arg(file);
    print("pickle.load", "cpython", layout, &mut load, is_json);
    let Some(tool) = std::env::var_os("MEMREEL_MEMORY_VIZ") else { return };
    for question in ["stats", "trace"] {
        let mut command = Command::new("python3");
        command.arg(&tool).arg(question).arg(file);
        print(question, "memory_viz", layout, &mut command, is_json);
    }
}

/// Runs a command and prints its figures.
fn print(question: &str, tool: &str, layout: &str, command: &mut Command, is_json: bool) {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let (mut seconds, mut cpu) = (Vec::new(), Vec::new());
    let mut peak = 0;
    for _ in 0..N_RUNS {
        let start = Instant::now();
        let used = run(command);
        seconds.push(start.elapsed().as_secs_f64());
        cpu.push(used.cpu_seconds);
        peak = used.peak_rss_bytes.max(peak);
    }
    let [median, cpu] = [seconds, cpu].map(|mut all| {
        all.sort_by(f64::total_cmp);
        all[N_RUNS / 2]
    });
    #[allow(clippy::cast_precision_loss)]
    let megabytes = peak as f64 / 1e6;
    if is_json {
        println!(
            r#"{{"question":"{question}","tool":"{tool}","layout":"{layout}","seconds":{median:.4},"cpu_seconds":{cpu:.4},"peak_rss_bytes":{peak}}}"#
        );
    } else {
        println!("{question:28} {tool:10} {layout:9} {median:8.3} s {cpu:8.3} s cpu {megabytes:8.1} MB");
    }
}

/// The resources that a child used.
struct Used {
    cpu_seconds: f64,
    peak_rss_bytes: u64,
}

/// Runs a child to its end and returns what it used.
#[allow(clippy::zombie_processes)] // `wait4` waits for it, and returns its resource usage too.
fn run(command: &mut Command) -> Used {
    let child = command.spawn().expect("the program starts");
    let id = libc::pid_t::try_from(child.id()).expect("a process number");
    let mut status = 0;
    // SAFETY: `rusage` has only numbers, for which zero is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to locals that outlive the call. The child is waited for only here: dropping `child`
    // does not wait.
    let waited = unsafe { libc::wait4(id, &raw mut status, 0, &raw mut usage) };
    assert_eq!(waited, id, "the child was waited for");
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) <= 1, "{command:?} failed");
    #[allow(clippy::cast_precision_loss)]
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Used {
        cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        peak_rss_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
    }
}
