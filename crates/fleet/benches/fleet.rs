//! What a query costs: how little is read of a file when little is asked for, and what executors bring.
//!
//! ```text
//! cargo bench                                  a table
//! cargo bench -- --json                        one JSON object a line
//! cargo bench -- --json pushdown 4 1000000     ranks and events of each
//! cargo bench -- --json cluster 32 200000
//! ```
//!
//! An optimised engine takes half an hour to build on two cores. This optimises the reader alone:
//! `cargo bench --profile dev --config 'profile.dev.package.memreel-snapshot.opt-level=3'`.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use memreel_snapshot::pickle;
use serde_json::{Value, json};

#[allow(dead_code, reason = "the made ranks of memreel ranks, of which this bench needs one function")]
#[path = "../../cli/benches/made_ranks/mod.rs"]
mod made_ranks;

const PROGRAM: &str = env!("CARGO_BIN_EXE_memreel-fleet");

/// How often a query is timed; the least time counts.
const N_TIMES: usize = 3;

fn main() {
    let is_json = env::args().any(|word| word == "--json");
    let words: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let number =
        |at: usize, usual: usize| words.get(at).map_or(usual, |word| word.parse().expect("a number"));
    let which = words.first().map_or("", |word| word);
    let print = |line: Value| match is_json {
        true => println!("{line}"),
        false => {
            line.as_object().into_iter().flatten().for_each(|(name, value)| println!("{name:18} {value}"));
            println!();
        }
    };
    if which != "cluster" {
        pushdown(number(1, 4), number(2, 1_000_000), &print);
    }
    if which != "pushdown" {
        cluster(number(1, 32), number(2, 200_000), &print);
    }
}

fn make_files(n_ranks: usize, n_events: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for number in 0..n_ranks {
        let path = folder.path().join(format!("rank{number}.pickle"));
        pickle::save(&made_ranks::rank(number, n_ranks, n_events), path).expect("a file");
    }
    folder
}

/// Queries that ask for more and more; the first one is the measure of the others.
const QUERIES: [(&str, &str); 7] = [
    ("one number", "select max(size_bytes) from events"),
    ("every stack", "select max(stack) from events"),
    ("stacks of one action", "select max(stack) from events where action = 'oom'"),
    ("stacks of large blocks", "select max(stack) from events where size_bytes > 1000000000"),
    ("stacks of one second", "select max(stack) from events where time_us < 1700000001000000"),
    ("one rank", "select max(stack) from events where rank = 1"),
    ("every column", "select count(*) from (select distinct * from events where event < 1000)"),
];

fn pushdown(n_ranks: usize, n_events: usize, print: &impl Fn(Value)) {
    let folder = make_files(n_ranks, n_events);
    let tables = tempfile::tempdir().expect("a temporary folder");
    let out = tables.path().to_str().expect("a path");
    let start = Instant::now();
    assert!(run(&["export", "--parquet", out, folder.path().to_str().expect("a path")]).0);
    print(json!({
        "case": "export", "n_ranks": n_ranks, "n_events_of_a_rank": n_events,
        "bytes": bytes_of(folder.path()), "parquet_bytes": bytes_of(tables.path()), "s": start.elapsed().as_secs_f64(),
    }));
    for (of, files) in [("pickle", folder.path()), ("parquet", tables.path())] {
        let files = files.to_str().expect("a path");
        let mut first_s = None;
        for (asked, sql) in QUERIES {
            let s = least_s(&["query", sql, files, "--format", "csv"]);
            let first_s = *first_s.get_or_insert(s);
            let counters = run(&["query", &format!("explain analyze {sql}"), files, "--format", "csv"]).1;
            print(json!({
                "case": "pushdown", "files": of, "asked": asked, "s": s, "times_one_number": s / first_s,
                "files_read": counter(&counters, "files_read"), "bytes_read": counter(&counters, "bytes_read"),
                "events_decoded": counter(&counters, "events_decoded"),
                "rows_dropped": counter(&counters, "rows_dropped"),
                "stack_texts": counter(&counters, "stack_texts_made"),
                "stack_text_bytes": counter(&counters, "stack_text_bytes"),
            }));
        }
    }
}

/// A query that needs the processor more than the disk.
const WORK: &str = "select site, count(*), sum(represented_bytes) from allocations group by site";

fn cluster(n_ranks: usize, n_events: usize, print: &impl Fn(Value)) {
    let folder = make_files(n_ranks, n_events);
    let files = folder.path().to_str().expect("a path");
    let pinned = |core: &str, words: &[&str]| {
        let mut command = Command::new("taskset");
        command.args(["-c", core, PROGRAM]).args(words).args(["--format", "csv"]).stderr(Stdio::null());
        let start = Instant::now();
        let answer = command.output().expect("taskset");
        assert!(answer.status.success());
        (start.elapsed().as_secs_f64(), sorted(&answer.stdout))
    };
    let (alone_s, expected) = pinned("0", &["query", WORK, files]);
    let mut least_s = f64::INFINITY;
    for n_executors in [1, 2] {
        let cluster = Cluster::start(n_executors);
        let words = ["query", "--ballista", &cluster.address, WORK, files];
        let (s, answer) =
            (0..N_TIMES).map(|_| pinned("0,1", &words)).min_by(|a, b| a.0.total_cmp(&b.0)).expect("one");
        print(json!({
            "case": "cluster", "n_ranks": n_ranks, "n_events_of_a_rank": n_events, "n_executors": n_executors,
            "s": s, "one_core_without_a_cluster_s": alone_s, "times_faster": alone_s / s, "is_same": answer == expected,
        }));
        least_s = least_s.min(s);
    }
    let mut cluster = Cluster::start(2);
    let address = cluster.address.clone();
    let words = ["query", "--ballista", &address, WORK, files];
    let (s, answer) = std::thread::scope(|scope| {
        let asked = scope.spawn(|| pinned("0,1", &words));
        std::thread::sleep(Duration::from_secs_f64(least_s / 2.0));
        cluster.machines.last_mut().expect("an executor").kill().expect("a process");
        asked.join().expect("an answer")
    });
    print(json!({
        "case": "an executor is killed", "executor_timeout_s": TIMEOUT_S, "two_executors_s": least_s,
        "killed_after_s": least_s / 2.0, "s": s, "is_same": answer == expected,
    }));
}

/// How long the scheduler waits for a silent executor.
const TIMEOUT_S: &str = "4";

/// A scheduler, and executors that have a core each.
struct Cluster {
    address: String,
    machines: Vec<Child>,
}

impl Cluster {
    fn start(n_executors: usize) -> Cluster {
        let port = 47000 + std::process::id() as usize % 1000 * 10;
        let mut cluster = Cluster { address: format!("df://127.0.0.1:{port}"), machines: Vec::new() };
        cluster.machine(
            "0,1",
            &["scheduler", "--port", &port.to_string(), "--executor-timeout", TIMEOUT_S],
            "listens on",
        );
        for executor in 0..n_executors {
            let port = (port + 2 + 2 * executor).to_string();
            let address = cluster.address.clone();
            let words = ["executor", &address, "--cores", "1", "--port", &port, "--heartbeat", "1"];
            cluster.machine(&executor.to_string(), &words, "registration succeed");
        }
        std::thread::sleep(Duration::from_secs(1));
        cluster
    }

    /// Starts a process on cores and waits until it has printed a text.
    fn machine(&mut self, cores: &str, words: &[&str], ready: &str) {
        let mut command = Command::new("taskset");
        command.args(["-c", cores, PROGRAM]).args(words).env("RUST_LOG", "info").stderr(Stdio::piped());
        let mut child = command.spawn().expect("taskset");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains(ready)), "{words:?} is ready");
        std::thread::spawn(move || lines.for_each(drop));
        self.machines.push(child);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for machine in &mut self.machines {
            let _ = machine.kill();
            let _ = machine.wait();
        }
    }
}

fn sorted(text: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = String::from_utf8_lossy(text).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn run(words: &[&str]) -> (bool, String) {
    let done = Command::new(PROGRAM).args(words).output().expect("the program");
    (done.status.success(), String::from_utf8_lossy(&done.stdout).into_owned())
}

fn least_s(words: &[&str]) -> f64 {
    let once = |_| {
        let start = Instant::now();
        assert!(run(words).0, "{words:?}");
        start.elapsed().as_secs_f64()
    };
    (0..N_TIMES).map(once).fold(f64::INFINITY, f64::min)
}

/// Returns a counter of `EXPLAIN ANALYZE`, as it prints it.
fn counter(text: &str, name: &str) -> String {
    let rest = text.split_once(&format!("{name}=")).map_or("", |(_, rest)| rest);
    rest.chars().take_while(|c| !",]".contains(*c)).collect()
}

fn bytes_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("a folder").map_while(Result::ok);
    entries
        .map(|entry| {
            if entry.path().is_dir() {
                bytes_of(&entry.path())
            } else {
                entry.metadata().map_or(0, |of| of.len())
            }
        })
        .sum()
}
