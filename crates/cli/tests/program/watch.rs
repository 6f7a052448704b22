//! `memreel watch`: processes that are watched while they run, and end.

#![forbid(unsafe_code)]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use memreel::{Allocation, Reel, device::Simulated, recorder::Recording};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    json_lines::{schema, validator},
    record,
    support::{memreel, run, stderr, stdout},
};

/// A folder with `1-0-rank3.tape` of this process, which still records.
fn recorded() -> (TempDir, (Reel, [Allocation; 2])) {
    let folder = tempfile::tempdir().unwrap();
    let history = Recording::all().tape(folder.path().join("1-0-rank3.tape"));
    let reel = Reel::builder().device(Simulated::new(1 << 30)).history(history).build().unwrap();
    let blocks = [reel.alloc(3000).unwrap(), reel.alloc(5 << 20).unwrap()];
    drop(reel.alloc(2 << 30));
    (folder, (reel, blocks))
}

fn tape(folder: &TempDir) -> String {
    folder.path().join("1-0-rank3.tape").display().to_string()
}

#[test]
fn a_tape_a_run_and_a_process_have_the_same_figures() {
    let (folder, reel) = recorded();
    let run_of = folder.path().display().to_string();
    let process = std::process::id().to_string();
    for source in [&tape(&folder), &run_of, &process] {
        let output = run(&["watch", "--once", "--json", source]);
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{source}");
        let lines = stdout(&output).lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        // Other tests of this process may record too.
        let line = lines.into_iter().find(|line| line["file"] == tape(&folder).as_str()).unwrap();
        assert!(validator(&schema(), "watch").is_valid(&line), "{line}");
        assert_eq!((&line["rank"], &line["process"]), (&"3".into(), &std::process::id().into()));
        assert_eq!((&line["live_bytes"], &line["n_live"]), (&(3000 + (5 << 20)).into(), &2.into()));
        assert_eq!(line["reserved_bytes"], 22 << 20, "a small segment and a large one");
        assert_eq!(
            (&line["holders"][0]["bytes"], &line["is_running"]),
            (&(3000 + (5 << 20)).into(), &true.into())
        );
        assert_eq!((&line["grown_since_begin"], &line["n_anew"]), (&Value::Array(Vec::new()), &0.into()));
        assert_eq!(
            (&line["oom"]["n_ooms"], &line["oom"]["requested_bytes"]),
            (&1.into(), &(2_u64 << 30).into())
        );
        assert!(line["oom"]["why"].as_str().is_some_and(|why| why.contains("2.00 GiB")), "{line}");
    }
    let text = stdout(&run(&["watch", "--once", &tape(&folder)])).to_owned();
    for part in ["rank 3 device 0", "reserved 22.00 MiB", "hold most", "1 failed request"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    drop(reel);
    // The recording has ended: a line for the second, and no more.
    let output = run(&["watch", &tape(&folder)]);
    let text = stdout(&output);
    assert!(output.status.success() && text.lines().count() == 1 && text.trim().ends_with("ended"), "{text}");
}

/// The same folder with the tape of a recording that has ended, `1-0.tape`.
fn recorded_beside_ended() -> (TempDir, (Reel, [Allocation; 2])) {
    let (folder, running) = recorded();
    let (other, ended) = recorded();
    drop(ended);
    fs::copy(tape(&other), folder.path().join("1-0.tape")).unwrap();
    (folder, running)
}

#[test]
fn what_has_ended_is_left_out_beside_what_runs() {
    let (folder, _running) = recorded_beside_ended();
    let text = stdout(&run(&["watch", "--once", folder.path().to_str().unwrap()])).to_owned();
    assert!(!text.contains(", ended\n"), "{text}");
    assert!(text.ends_with("not shown: processes that have ended: 1 (--json has them)\n"), "{text}");
    let named = folder.path().join("1-0.tape").display().to_string();
    let text = stdout(&run(&["watch", "--once", &named, &tape(&folder)])).to_owned();
    assert!(text.contains(", ended\n") && !text.contains("not shown"), "{text}");
}

#[test]
fn a_process_that_has_ended_has_one_line_while_others_run() {
    let (folder, running) = recorded_beside_ended();
    let mut watch = memreel(&["watch"]).arg(folder.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    // Two looks, and then the last one.
    let has_ended = |line: &String| line.ends_with(", ended");
    let mut seen: Vec<String> = Vec::new();
    while seen.iter().filter(|line| !has_ended(line)).count() < 2 {
        seen.push(lines.next().unwrap());
    }
    drop(running);
    seen.extend(lines);
    assert!(watch.wait().unwrap().success());
    assert_eq!(seen.iter().filter(|line| has_ended(line)).count(), 2, "{seen:#?}");
}

#[test]
fn what_cannot_be_watched_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.tape");
    fs::write(&other, "not a tape").unwrap();
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let unrecorded = child.id().to_string();
    for (source, status, message) in [
        ("/there/is/no.tape", 3, "cannot be read"),
        ("999999999", 3, "there is no process 999999999"),
        (other.to_str().unwrap(), 3, "not a tape"),
        (folder.path().to_str().unwrap(), 2, "no recorded process to watch"),
        (&unrecorded, 2, "no recorded process to watch"),
    ] {
        let output = run(&["watch", "--once", source]);
        assert_eq!(output.status.code(), Some(status), "{source}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{source}: {}", stderr(&output));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

const LEAK: &str = r"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) void *kept_for_ever(size_t n) { char *p = malloc(n); memset(p, 1, n); return p; }
__attribute__((noinline)) void *used_for_a_while(size_t n) { char *p = malloc(n); memset(p, 1, n); return p; }
void *volatile sink;
int main(void) {
    sink = used_for_a_while(64 << 20);
    for (;;) {
        void *temporary = used_for_a_while(1 << 20);
        sink = kept_for_ever(4096);
        free(temporary);
        usleep(5000);
    }
}
";

/// Starts `memreel record --heap` on a program that leaks.
fn leaking() -> (record::Start, Child) {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("leak.c"), folder.path().join("leak"));
    fs::write(&source, LEAK).unwrap();
    record::cc(&["-o", program.to_str().unwrap(), source.to_str().unwrap()]);
    let mut start = record::record(&["--heap"], &[program.to_str().unwrap()]);
    let child = start.spawn();
    // It is loaded by now, or will fail; the folder of its source may go with the test.
    std::mem::forget(folder);
    (start, child)
}

/// Returns the folder of a run as soon as a tape is in it.
fn run_in(folder: &Path) -> std::path::PathBuf {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        let runs = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
        let has_tape = |run: &std::path::PathBuf| {
            fs::read_dir(run).is_ok_and(|files| {
                files.flatten().any(|file| file.path().extension().is_some_and(|end| end == "tape"))
            })
        };
        if let Some(run) = runs.filter(|run| run.is_dir()).find(has_tape) {
            return run;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("no process was recorded");
}

#[test]
fn a_planted_leak_is_the_first_growing_site_and_the_end_is_seen() {
    let (start, mut child) = leaking();
    let run = run_in(&start.path(""));
    let mut command = memreel(&["watch", "--json", run.to_str().unwrap()]);
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(|line| {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert!(validator(&schema(), "watch").is_valid(&line), "{line}");
        line
    });
    let function = |site: &Value| site["stack"][0]["name"].as_str().unwrap_or_default().to_owned();
    let found = lines.find(|line| {
        assert!(begun.elapsed() < Duration::from_secs(60), "{line}");
        !line["grown_since_begin"].as_array().unwrap().is_empty()
    });
    let line = found.unwrap();
    let sites = line["grown_since_begin"].as_array().unwrap();
    let shown = serde_json::to_string(sites).unwrap();
    assert!(shown.contains("kept_for_ever"), "{shown}");
    assert!(line["holders"][0].to_string().contains("used_for_a_while"), "{}", function(&line["holders"][0]));
    assert!(line["holders"][0]["bytes"].as_u64().unwrap() >= 64 << 20);
    assert_eq!(line["is_running"], true);
    // The recorded program ends by a signal that nothing handles.
    let process = line["process"].as_u64().unwrap().to_string();
    assert!(Command::new("kill").args(["-KILL", &process]).status().unwrap().success());
    let last = lines.last().unwrap();
    assert_eq!(last["is_running"], false);
    assert!(watch.wait().unwrap().success());
    child.wait().unwrap();
}

#[test]
fn metrics_of_what_is_watched_are_served_until_it_ends() {
    let (folder, reel) = recorded();
    let mut command = memreel(&["watch", "--metrics", "127.0.0.1:0", &tape(&folder)]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut printed = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    printed.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("http://").expect(&line);
    let address = address.strip_suffix("/metrics").unwrap();
    let begun = Instant::now();
    let text = loop {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        if text.contains("200 OK") {
            break text;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{text}");
        thread::sleep(Duration::from_millis(20));
    };
    let series = format!("process=\"{}\",device=\"0\"", std::process::id());
    let number = |metric: &str| {
        let line = text.lines().find(|line| line.starts_with(metric) && line.contains(&series));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
    };
    assert_eq!(number("memreel_allocated_bytes{"), Some(3000 + (5 << 20)), "{text}");
    assert_eq!((number("memreel_blocks{"), number("memreel_failed_requests_total{")), (Some(2), Some(1)));
    drop(reel);
    assert!(child.wait().unwrap().success(), "it ends with what is watched");
    let output = run(&["watch", "--metrics", "127.0.0.1:0", "--once", &tape(&folder)]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}
