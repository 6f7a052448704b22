//! `memreel view --live`: what its server answers about a program that records meanwhile, and after its end.

#![forbid(unsafe_code)]

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use memreel::{Reel, device::Simulated, recorder::Recording};
use memreel_snapshot::pickle;
use serde_json::Value;

use crate::{
    support::{run, stderr},
    view::{Server, serve},
};

/// Waits until the first device is as it must be.
pub(crate) fn wait_for(server: &Server, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = server.get("live").json();
        if is_so(&answer["devices"][0]) {
            return answer;
        }
        assert!(Instant::now() < until, "{what}: {answer}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Begins a look, and returns the path of its page.
pub(crate) fn pause(server: &Server) -> String {
    let look = server.post("pause").json()["look"].as_u64().unwrap();
    format!("look/{look}/")
}

/// Waits until the device of a look is read.
pub(crate) fn device_of(server: &Server, look: &str) -> Value {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let file = server.get(&format!("{look}files")).json()["files"][0].clone();
        if file["state"] != "reading" {
            return file["devices"][0].clone();
        }
        assert!(Instant::now() < until, "{file}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the allocated and the reserved bytes at a moment of a look.
pub(crate) fn totals(server: &Server, look: &str, moment: u64) -> [u64; 2] {
    let totals = server.get(&format!("{look}totals?moment={moment}")).json();
    ["allocated_bytes", "reserved_bytes"].map(|name| totals[name].as_u64().unwrap())
}

/// Returns the moments of `memreel timeline` on a file of one device, with the totals at each.
pub(crate) fn timeline(snapshot: &Path) -> Vec<(u64, [u64; 2])> {
    let output = run(&["timeline", "--csv", snapshot.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let csv = String::from_utf8(output.stdout).unwrap();
    let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = rows.next().unwrap();
    let column = |name: &str| head.iter().position(|of| *of == name).unwrap();
    let event = column("event");
    let totals = ["allocated_bytes", "reserved_bytes"].map(column);
    let moment = |row: &[&str]| row[event].parse::<u64>().map_or(0, |event| event + 1);
    rows.map(|row| (moment(&row), totals.map(|at| row[at].parse().unwrap()))).collect()
}

#[test]
fn a_program_is_followed_and_a_look_stays_while_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let tape = folder.path().join("1-0-rank3.tape");
    let history = Recording::all().tape(&tape);
    let reel = Reel::builder().device(Simulated::new(1 << 30)).history(history).build().unwrap();
    let first = reel.alloc(5 << 20).unwrap();
    let server = serve(&["--live", tape.to_str().unwrap()]);
    assert!(server.get("").text().contains("live.js"));
    let answer = wait_for(&server, "the first block", |device| device["live_bytes"] == 5 << 20);
    let device = &answer["devices"][0];
    assert_eq!((&device["rank"], &device["is_running"]), (&"3".into(), &true.into()));
    assert!(!device["curve"].as_array().unwrap().is_empty(), "{device}");
    assert!(device["holders"].is_array() && device["owners"].is_array(), "{device}");

    let look = pause(&server);
    let at_pause = device_of(&server, &look);
    let n_events = at_pause["n_events"].as_u64().unwrap();
    let second = reel.alloc(7 << 20).unwrap();
    wait_for(&server, "the second block", |device| device["live_bytes"] == 12 << 20);
    // The look is the history as it was; a new one has more.
    assert_eq!(device_of(&server, &look)["n_events"], n_events);
    assert_eq!(totals(&server, &look, n_events)[0], 5 << 20);
    assert!(server.get(&look).text().contains("main.js"), "the page of a look is that of any file");
    let later = pause(&server);
    let n_later = device_of(&server, &later)["n_events"].as_u64().unwrap();
    assert!(n_later > n_events);
    assert_eq!(totals(&server, &later, n_later)[0], 12 << 20);

    drop((first, second));
    let snapshot = folder.path().join("end.pickle");
    pickle::save(&reel.snapshot(), &snapshot).unwrap();
    // The totals at each event of the look are those of `memreel timeline` on the finished file.
    let (of_look, ended): (Vec<_>, Vec<_>) =
        timeline(&snapshot).into_iter().partition(|(moment, _)| *moment <= n_later);
    assert!(of_look.len() > 2 && !ended.is_empty(), "{of_look:?} {ended:?}");
    for (moment, expected) in of_look {
        assert_eq!(totals(&server, &later, moment), expected, "moment {moment}");
    }

    drop(reel);
    let ended = wait_for(&server, "the end", |device| device["is_running"] == false);
    assert_eq!(ended["devices"].as_array().unwrap().len(), 1);
    // A third look ends the first.
    let newest = pause(&server);
    assert!(device_of(&server, &newest)["n_events"].as_u64().unwrap() > n_later);
    assert_eq!(server.get(&format!("{look}files")).status, 404);
    assert_eq!(server.get(&format!("{later}files")).status, 200);
    fs::remove_file(&tape).unwrap();
    wait_for(&server, "the last figures", |device| device["is_running"] == false);
}

#[test]
fn an_answer_comes_with_the_next_look() {
    let folder = tempfile::tempdir().unwrap();
    let tape = folder.path().join("1-0.tape");
    let history = Recording::all().tape(&tape);
    let reel = Reel::builder().device(Simulated::new(1 << 30)).history(history).build().unwrap();
    let _block = reel.alloc(5 << 20).unwrap();
    let server = serve(&["--live", tape.to_str().unwrap()]);
    let of_look = |answer: &Value| answer["now_us"].as_u64().unwrap();
    let first = of_look(&wait_for(&server, "the block", |device| device["live_bytes"] == 5 << 20));
    let (begun, mut n_asked, mut last) = (Instant::now(), 0, first);
    while last < first + 1_000_000 {
        last = of_look(&server.get(&format!("live?after={last}")).json());
        n_asked += 1;
        assert!(begun.elapsed() < Duration::from_secs(60), "no look comes");
    }
    // In a second there are at most four looks; where they are late, the last is answered again every two seconds.
    let most = 5 + begun.elapsed().as_secs() / 2;
    assert!(n_asked <= most, "{n_asked} answers, at most {most} were due");
    // What does not come is not waited for for ever.
    assert!(of_look(&server.get("live?after=9000000000000000000").json()) >= last);
    assert_eq!(server.get("live?after=soon").status, 400);
}

#[test]
fn a_snapshot_is_written_to_the_named_file() {
    let (folder, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let tape = folder.path().join("1-0.tape");
    let history = Recording::all().tape(&tape);
    let reel = Reel::builder().device(Simulated::new(1 << 30)).history(history).build().unwrap();
    let _block = reel.alloc(5 << 20).unwrap();
    let server = crate::view::serve_in(here.path(), &["--live", tape.to_str().unwrap()]);
    wait_for(&server, "the block", |device| device["live_bytes"] == 5 << 20);
    let answer = server.post("snapshot").json();
    let file = answer["files"][0].as_str().unwrap();
    assert!(file.starts_with(here.path().to_str().unwrap()), "{file}");
    let snapshot = pickle::load(file).unwrap();
    assert_eq!(snapshot.device_traces[0].len(), 2, "a segment and a block");
    // What changes something needs a POST.
    assert_eq!(server.get("pause").status, 404);
}

#[test]
fn what_cannot_be_followed_is_refused_before_anything_is_served() {
    for (word, status) in [("/there/is/no.tape", 3), ("999999999", 3)] {
        let output = run(&["view", "--live", "--no-open", word]);
        assert_eq!(output.status.code(), Some(status), "{word}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
}
