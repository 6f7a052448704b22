//! The server of `memreel view` on large files: how soon it has a first picture and all of it, what pictures and answers cost,
//! and its memory.
//!
//! ```text
//! cargo bench -p memreel-cli --bench view                          1,000,000 and 10,000,000 entries, a table
//! cargo bench -p memreel-cli --bench view -- --json                one JSON object a line
//! cargo bench -p memreel-cli --bench view -- --make 1000000 FILE   only makes the file
//! ```
//!
//! Times are from the first request. `first_ms` is that of the first answer with a curve of what is read, `ready_ms` that of
//! the last event's. A picture is one of 300 random windows; its peer is the whole history as `memreel timeline --json`, the
//! way to a picture without a server. What a browser adds is measured by `crates/cli/tests/browser/frames.mjs`.

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

#[path = "../../../benches/million/mod.rs"]
#[allow(dead_code)]
mod million;

const N_PICTURES: usize = 300;

fn main() {
    let words: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    if let [make, n_events, path] = &words[..]
        && make == "--make"
    {
        return save(n_events.parse().expect("a number of events"), Path::new(path));
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    for n_events in [million::N_EVENTS, 10 * million::N_EVENTS] {
        let path = folder.path().join("recording.pickle");
        save(n_events, &path);
        let line = measured(&path, n_events);
        if words.iter().any(|word| word == "--json") {
            println!("{line}");
        } else {
            line.as_object().into_iter().flatten().for_each(|(name, value)| println!("{name:22} {value}"));
        }
    }
}

fn save(n_events: usize, path: &Path) {
    memreel_snapshot::pickle::save(&million::synthetic_of(n_events), path).expect("a file");
}

/// A running `memreel view`.
struct Server {
    child: Child,
    host: String,
    path: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

impl Server {
    fn start(file: &Path) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memreel"));
        command.args(["view", "--no-open"]).arg(file).env_remove("SSH_CONNECTION").stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("an address");
        let address = line.trim_end().trim_start_matches("http://");
        let (host, path) = address.split_once('/').expect("a path");
        Server { child, host: host.to_owned(), path: format!("/{path}") }
    }

    fn get(&self, query: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.host).expect("a connection");
        let head =
            format!("GET {}{query} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.path, self.host);
        stream.write_all(head.as_bytes()).expect("a request");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        bytes.split_off(end)
    }

    fn file(&self) -> Value {
        let files: Value = serde_json::from_slice(&self.get("files")).expect("JSON");
        files["files"][0].clone()
    }

    /// The most memory that the process has had resident.
    fn peak_rss_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
    }
}

fn measured(file: &Path, n_events: usize) -> Value {
    let server = Server::start(file);
    let start = Instant::now();
    let mut first = None;
    let device = loop {
        let found = server.file();
        let is_ready = found["state"] == "ready";
        let has_points = found["coarse"]["points"].as_array().is_some_and(|points| !points.is_empty());
        if is_ready || has_points {
            first.get_or_insert_with(|| start.elapsed());
        }
        if is_ready {
            break found["devices"][0].clone();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let ready = start.elapsed();
    let time = |query: &str| {
        let begin = Instant::now();
        server.get(query);
        begin.elapsed().as_secs_f64() * 1e3
    };
    let whole_ms = time("picture?rows=512");
    let mut pictures: Vec<f64> = (0..N_PICTURES)
        .map(|at| {
            let level = 1 + at % 14;
            let index = (at * 2_654_435_761) % ((2 << level) - 1);
            time(&format!("picture?rows=512&level={level}&index={index}"))
        })
        .collect();
    pictures.sort_by(f64::total_cmp);
    let at = |part: f64| pictures[((pictures.len() - 1) as f64 * part) as usize];
    let half = device["n_events"].as_u64().unwrap_or(0) / 2;
    let begin = Instant::now();
    let timeline =
        Command::new(env!("CARGO_BIN_EXE_memreel")).args(["timeline", "--json"]).arg(file).output();
    let timeline_ms = begin.elapsed().as_secs_f64() * 1e3;
    assert!(timeline.is_ok_and(|output| output.status.success()));
    json!({
        "case": "view", "n_events": n_events, "file_bytes": fs::metadata(file).map(|found| found.len()).ok(),
        "first_ms": first.unwrap_or(ready).as_secs_f64() * 1e3, "ready_ms": ready.as_secs_f64() * 1e3,
        "whole_picture_ms": whole_ms, "picture_ms": at(0.5), "picture_p95_ms": at(0.95),
        "state_ms": time(&format!("state?moment={half}")), "totals_ms": time(&format!("totals?moment={half}")),
        "icicle_ms": time(&format!("icicle?moment={half}")), "list_ms": time("list?sort=life"),
        "block_ms": time("block?life=77"), "timeline_command_ms": timeline_ms,
        "peak_rss_bytes": server.peak_rss_bytes(),
    })
}
