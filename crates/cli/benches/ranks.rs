//! `memreel ranks` on many ranks, five of which are made to differ: the time, the memory, and whether it finds these five.
//!
//! ```text
//! cargo bench -p memreel-cli --bench ranks                           10, 100 and 1,000 ranks of 100,000 events, a table
//! cargo bench -p memreel-cli --bench ranks -- --json                 one JSON object a line
//! cargo bench -p memreel-cli --bench ranks -- --json 1000 1000000    1,000 ranks of 1,000,000 events, 52 GB
//! cargo bench -p memreel-cli --bench ranks -- --make 1000 1000000 FOLDER   only makes the files
//! ```
//!
//! The peer is `memreel summary` of the same files, one process for each, as a loop of a shell runs it; of 10 files.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use memreel_snapshot::pickle;
use serde_json::{Value, json};

mod made_ranks;

use made_ranks::{PLANTED, rank};

fn main() {
    let is_json = env::args().any(|word| word == "--json");
    let words: Vec<String> =
        env::args().skip(1).filter(|word| word != "--bench" && word != "--json").collect();
    let number = |text: &String| text.parse().expect("a number");
    let cases = match &words[..] {
        [make, n_ranks, n_events, folder] if make == "--make" => {
            return make_files(number(n_ranks), number(n_events), Path::new(folder));
        }
        [n_ranks, n_events] => vec![(number(n_ranks), number(n_events))],
        _ => [10, 100, 1000].map(|n_ranks| (n_ranks, 100_000)).to_vec(),
    };
    for (n_ranks, n_events) in cases {
        let folder = tempfile::tempdir().expect("a temporary folder");
        make_files(n_ranks, n_events, folder.path());
        let line = measured(n_ranks, n_events, folder.path());
        if is_json {
            println!("{line}");
        } else {
            line.as_object().into_iter().flatten().for_each(|(name, value)| println!("{name:22} {value}"));
        }
    }
}

fn make_files(n_ranks: usize, n_events: usize, folder: &Path) {
    fs::create_dir_all(folder).expect("a folder");
    for number in 0..n_ranks {
        let path = folder.join(format!("rank{number}.pickle"));
        pickle::save(&rank(number, n_ranks, n_events), path).expect("a file");
    }
}

fn measured(n_ranks: usize, n_events: usize, folder: &Path) -> Value {
    let start = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_memreel"))
        .args(["ranks", "--json"])
        .arg(folder)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program");
    let (pid, mut peak_bytes) = (child.id(), 0);
    let reader = child.stdout.take().expect("a pipe");
    let text = std::thread::spawn(move || std::io::read_to_string(reader).expect("text"));
    while child.try_wait().expect("a child").is_none() {
        peak_bytes = peak_bytes.max(high_water_bytes(pid));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let ranks_s = start.elapsed().as_secs_f64();
    let text = text.join().expect("the reader");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let found: Vec<u64> =
        lines.filter(|line| line["is_outlier"] == true).filter_map(|line| line["rank"].as_u64()).collect();
    let planted: Vec<u64> = PLANTED.iter().map(|kind| kind.number(n_ranks) as u64).collect();
    json!({
        "case": "ranks",
        "n_ranks": n_ranks,
        "n_events_of_a_rank": n_events,
        "bytes": folder_bytes(folder),
        "ranks_s": ranks_s,
        "rank_ms": ranks_s * 1000.0 / n_ranks as f64,
        "summary_of_a_rank_ms": summary_ms(folder),
        "peak_rss_bytes": peak_bytes,
        "n_planted_found": planted.iter().filter(|number| found.contains(number)).count(),
        "n_others_found": found.iter().filter(|number| !planted.contains(number)).count(),
    })
}

fn summary_ms(folder: &Path) -> f64 {
    let start = Instant::now();
    for number in 0..10 {
        let path = folder.join(format!("rank{number}.pickle"));
        let command = &mut Command::new(env!("CARGO_BIN_EXE_memreel"));
        command.arg("summary").arg(path).stdout(Stdio::null()).status().expect("the program");
    }
    start.elapsed().as_secs_f64() * 1000.0 / 10.0
}

fn high_water_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn folder_bytes(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).expect("a folder");
    files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum()
}
