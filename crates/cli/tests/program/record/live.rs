//! `--live`: the page of a run answers while the program runs, with what the program holds, and ends with the run.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read},
    process::{ChildStderr, ChildStdout, Command},
};

use super::{Start, metrics::wait_for, program, record};
use crate::{
    live::{device_of, pause, timeline, totals, wait_for as wait_for_device},
    view::Server,
};

/// Starts a recording whose terminal is one of SSH, so that no browser is opened.
fn start(program: &[&str]) -> Start {
    let start = record(&["--heap", "--live", "--print-address", "-o", "out.pickle"], program);
    start.env("SSH_TTY", "none").env("SSH_CONNECTION", "192.0.2.1 5 192.0.2.2 22").env("USER", "someone")
}

/// Returns the address of the page.
fn address(lines: &mut BufReader<ChildStderr>) -> String {
    let mut text = [String::new(), String::new()];
    text.iter_mut().for_each(|line| _ = lines.read_line(line).unwrap());
    let address = text[0].trim_end().strip_prefix("memreel: the live page is at ");
    let address = address.unwrap_or_else(|| panic!("{text:?}"));
    let port = address.split([':', '/']).nth(4).unwrap();
    let ssh = format!(
        "memreel: on your own machine: ssh -L {port}:127.0.0.1:{port} someone@192.0.2.2, then open the address there\n"
    );
    assert_eq!(text[1], ssh);
    address.to_owned()
}

/// Starts the run. Returns its page and what it prints, which has a reader until the end.
fn serve(start: &mut Start) -> (Server, ChildStdout, BufReader<ChildStderr>) {
    let mut child = start.spawn();
    let out = child.stdout.take().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let address = address(&mut lines);
    (Server::of(child, &address), out, lines)
}

/// `--view`: after the program, a page has its snapshot until its reader ends it; the status is the program's.
#[test]
fn the_page_of_the_snapshot_is_there_after_the_program() {
    let words = ["--heap", "--view", "--print-address", "-o", "out.pickle"];
    let mut start = record(&words, &["sh", "-c", "ls >/dev/null; exit 5"]);
    start = start.env("SSH_TTY", "none").env("SSH_CONNECTION", "");
    let mut child = start.spawn();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let address = |line: String| line.strip_prefix("memreel: the page is at ").map(str::to_owned);
    let mut next = None;
    let address = lines
        .inspect(|line| next = line.strip_prefix("next: memreel ").map(str::to_owned).or(next.take()))
        .find_map(address)
        .unwrap();
    let mut server = Server::of(child, &address);
    let file = server.first_file();
    assert!(file["name"].as_str().is_some_and(|name| name.ends_with(&next.unwrap())), "{file}");
    let parts = server.get("answer").json()["parts"].clone();
    assert!(parts[0]["lines"][0].as_str().is_some_and(|line| line.starts_with("device ")), "{parts}");
    server.post("end");
    assert_eq!(server.wait().code(), Some(5));
}

#[test]
fn the_page_of_a_run_has_what_the_program_holds_and_ends_with_it() {
    let mut start = start(&[&program("staged")]);
    let (mut server, mut out, _lines) = serve(&mut start);
    let reaches =
        |stage: u32| wait_for("a stage", || start.path(&format!("at-{stage}")).exists().then_some(()));
    let go_on = |stage: u32| fs::write(start.path(&format!("go-{stage}")), "").unwrap();
    assert!(server.get("").text().contains("live.js"));

    reaches(1);
    let first = wait_for_device(&server, "the first stage", |device| {
        device["live_bytes"].as_u64().is_some_and(|bytes| bytes >= 64 << 20)
    });
    let at_first = first["devices"][0]["live_bytes"].as_u64().unwrap();
    go_on(1);
    reaches(2);
    let second =
        wait_for_device(&server, "the second stage", |device| device["live_bytes"] == at_first + 600 * 5000);
    let device = &second["devices"][0];
    assert_eq!(device["live_peak_bytes"], at_first + 600 * 5000 + (40 << 20));
    assert_eq!(device["is_running"], true);
    assert!(device["holders"].to_string().contains("kept_for_ever"), "{device}");

    let look = pause(&server);
    let n_events = device_of(&server, &look)["n_events"].as_u64().unwrap();
    assert!(n_events > 1400, "{n_events}");
    let moments = (0..=n_events).filter(|moment| moment % 7 == 0 || *moment == n_events);
    let of_look: Vec<_> = moments.map(|moment| (moment, totals(&server, &look, moment))).collect();
    assert_eq!(of_look.last().unwrap().1[0], at_first + 600 * 5000);
    go_on(2);
    assert!(server.wait().success());
    assert!(!server.is_there(), "the page outlives the run");
    let mut printed = String::new();
    out.read_to_string(&mut printed).unwrap();
    assert_eq!(printed, "", "the program printed nothing");
    let finished: BTreeMap<_, _> = timeline(&start.path("out.pickle")).into_iter().collect();
    for (moment, found) in of_look {
        assert_eq!(found, finished[&moment], "moment {moment}");
    }
}

#[test]
fn a_device_that_is_not_used_leaves_the_page_once_another_is() {
    let mut start = start(&[&program("events"), "500", "1"]);
    let (mut server, _out, _lines) = serve(&mut start);
    // Before its first block the process uses no device, and all of them are shown.
    let before = wait_for_device(&server, "the process", |device| device["is_running"] == true);
    assert_eq!(before["devices"][0]["n_live"], 0);
    fs::write(start.path("go"), "").unwrap();
    let after = wait_for_device(&server, "the blocks", |device| device["n_live"] == 30);
    assert_eq!(after["devices"].as_array().unwrap().len(), 1, "{after}");
    let process = after["devices"][0]["process"].to_string();
    assert!(Command::new("kill").arg(process).status().unwrap().success());
    assert_eq!(server.wait().code(), Some(128 + 15));
}
