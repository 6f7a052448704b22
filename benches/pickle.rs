//! Times writing and reading a snapshot of 1,000,000 entries, compared with CPython on the same files.
//!
//! ```text
//! cargo bench --bench pickle              a table
//! cargo bench --bench pickle -- --json    one JSON object a line
//! ```
//!
//! | case | what is timed |
//! |---|---|
//! | `write_1m` | writing the snapshot to a new file; neither memreel nor CPython waits for the disk |
//! | `load_1m` | reading that file; memreel checks the format while it reads, CPython does not |
//! | `load_1m_unshared` | reading the same snapshot in PyTorch's layout: each malloc and each free has its own list of frames |
//!
//! Each figure is the median of seven runs. `extra_rss_bytes` is the peak of
//! resident memory during the run, minus the resident memory before it; null if
//! the kernel does not report it. Expect about 30 s on 2 cores of 4.5 GHz, nearly all of it in CPython.

use std::{
    fs::{self, File},
    io,
    path::Path,
    process::Command,
    time::Instant,
};

use memreel::pickle;

mod million;

use million::{N_EVENTS, N_STACKS, synthetic};

const N_RUNS: usize = 7;

/// The script that runs CPython on memreel's file and prints one line per case.
const PYTHON: &str = include_str!("pickle.py");

fn main() {
    let is_json = std::env::args().any(|argument| argument == "--json");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [shared, unshared] = ["shared.pickle", "unshared.pickle"].map(|name| folder.path().join(name));
    let mut lines = vec![write_case(&shared)];
    let python = run_python(&shared, &unshared);
    lines.push(load_case("load_1m", &shared));
    if python.is_some() {
        lines.push(load_case("load_1m_unshared", &unshared));
    }
    lines.extend(python.unwrap_or_default());
    lines.iter().for_each(|line| println!("{}", if is_json { line.json() } else { line.row() }));
}

/// The result of one case with one tool.
struct Line {
    case: String,
    tool: &'static str,
    seconds: f64,
    bytes: u64,
    extra_rss_bytes: Option<u64>,
}

impl Line {
    #[allow(clippy::cast_precision_loss)]
    fn events_per_second(&self) -> f64 {
        N_EVENTS as f64 / self.seconds
    }

    fn json(&self) -> String {
        let rss = self.extra_rss_bytes.map_or("null".into(), |bytes| bytes.to_string());
        format!(
            r#"{{"case":"{}","tool":"{}","seconds":{:.6},"bytes":{},"extra_rss_bytes":{rss},"events_per_second":{:.0}}}"#,
            self.case,
            self.tool,
            self.seconds,
            self.bytes,
            self.events_per_second(),
        )
    }

    #[allow(clippy::cast_precision_loss)]
    fn row(&self) -> String {
        let rss = self.extra_rss_bytes.map_or("?".into(), |bytes| format!("{:.1}", bytes as f64 / 1e6));
        format!(
            "{:18} {:8} {:9.4} s {:7.2} M events/s {:8.2} MB {:>8} MB extra",
            self.case,
            self.tool,
            self.seconds,
            self.events_per_second() / 1e6,
            self.bytes as f64 / 1e6,
            rss,
        )
    }
}

fn write_case(path: &Path) -> Line {
    let snapshot = synthetic();
    assert_eq!(snapshot.n_events(), N_EVENTS);
    measure(
        "write_1m",
        path,
        || drop(fs::remove_file(path)),
        || {
            let file = File::create(path).expect("a new file");
            pickle::write(&snapshot, file).expect("space in the temporary folder");
        },
    )
}

fn load_case(case: &str, path: &Path) -> Line {
    measure(
        case,
        path,
        || (),
        || {
            let snapshot = pickle::load(path).expect("the file just written");
            assert_eq!((snapshot.n_events(), snapshot.stacks.len()), (N_EVENTS, N_STACKS + 1));
            snapshot
        },
    )
}

/// Measures the median time of all runs, and the largest growth of memory in any.
fn measure<T>(case: &str, path: &Path, prepare: impl Fn(), run: impl Fn() -> T) -> Line {
    let mut seconds = Vec::new();
    let mut growth = Some(0);
    for _ in 0..N_RUNS {
        prepare();
        let before = reset_peak();
        let start = Instant::now();
        let made = run();
        seconds.push(start.elapsed().as_secs_f64());
        drop(made);
        growth = (|| Some(growth?.max(status_bytes("VmHWM:")?.saturating_sub(before?))))();
    }
    seconds.sort_by(f64::total_cmp);
    let bytes = fs::metadata(path).expect("the file just used").len();
    Line { case: case.into(), tool: "memreel", seconds: seconds[N_RUNS / 2], bytes, extra_rss_bytes: growth }
}

/// Resets the peak of resident memory to the present value, and returns that in bytes.
fn reset_peak() -> Option<u64> {
    fs::write("/proc/self/clear_refs", "5").ok()?;
    status_bytes("VmRSS:")
}

fn status_bytes(key: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix(key))?.trim().strip_suffix(" kB")?;
    Some(kilobytes.parse::<u64>().ok()? * 1024)
}

/// Runs CPython's cases. CPython also writes the second file, because it produces PyTorch's own layout.
fn run_python(shared: &Path, unshared: &Path) -> Option<Vec<Line>> {
    let output = Command::new("python3")
        .args(["-c", PYTHON])
        .args([shared, unshared])
        .arg(N_RUNS.to_string())
        .stderr(std::process::Stdio::inherit())
        .output();
    let text = match output {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            eprintln!("skipped CPython's cases and load_1m_unshared: python3 was not found");
            return None;
        }
        output => output.expect("python3 runs").stdout,
    };
    let text = String::from_utf8(text).expect("Python prints text");
    let lines: Vec<_> = text.lines().map(python_line).collect();
    assert_eq!(lines.len(), 3, "python3 failed");
    Some(lines)
}

fn python_line(line: &str) -> Line {
    let words: Vec<_> = line.split(' ').collect();
    let [case, seconds, bytes, rss] = words[..] else { panic!("python3 printed {line:?}") };
    Line {
        case: case.into(),
        tool: "cpython",
        seconds: seconds.parse().expect("seconds"),
        bytes: bytes.parse().expect("bytes"),
        extra_rss_bytes: rss.parse().ok(),
    }
}
