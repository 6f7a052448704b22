//! What is known of a heap's run beyond the events that its ring kept.

#![forbid(unsafe_code)]

use std::process::{Command, Output};

use serde_json::Value;

use super::{Run, program, record};

const FILE: &str = "run.pickle";

/// Records the program of `past_ring.c` with a ring of so many events.
fn recorded(ring: &str, words: &[&str]) -> Run {
    let path = program("past_ring");
    record(&["--heap", "--ring", ring, "-o", FILE], &[&[&*path], words].concat()).run()
}

fn asked(run: &Run, words: &[&str]) -> Output {
    let mut memreel = Command::new(env!("CARGO_BIN_EXE_memreel"));
    let device = ["--device", "1", FILE];
    memreel.args(words).args(device).current_dir(run.folder.path()).output().unwrap()
}

fn json(run: &Run, words: &[&str]) -> Value {
    let found = asked(run, words);
    serde_json::from_slice(&found.stdout).unwrap_or_else(|_| panic!("{found:?} {}", run.err))
}

fn text(run: &Run, words: &[&str]) -> String {
    String::from_utf8(asked(run, words).stdout).unwrap()
}

/// Returns the group with the most bytes.
fn first_group(answer: &Value) -> &Value {
    &answer["groups"][0]
}

#[test]
fn a_peak_that_the_ring_lost_is_that_of_the_run() {
    let run = recorded("4096", &["early", "pairs"]);
    assert!(
        run.err.contains("--ring COUNT keeps more), peak 61.") && !run.err.contains("of the last"),
        "{}",
        run.err
    );
    for by in ["stack", "function", "owner"] {
        let top = json(&run, &["top", "--json", "--by", by]);
        assert_eq!((&top["is_of_run"], &top["event"]), (&true.into(), &Value::Null), "{top}");
        assert!((64_000_000..65_000_000).contains(&top["active_bytes"].as_u64().unwrap()), "{top}");
        assert!(first_group(&top)["bytes"].as_u64().unwrap() >= 64_000_000, "{top}");
    }
    let top = text(&run, &["top"]);
    assert!(top.starts_with("peak: 61.") && top.contains(" s before event 0\n"), "{top}");
    assert!(top.contains("the peak of the run (61."), "{top}");
    assert!(text(&run, &["top", "--tree"]).contains("→ early"), "{}", text(&run, &["top", "--tree"]));
    let summary = json(&run, &["summary", "--json"]);
    assert_eq!(summary["peak_is_of_run"], true, "{summary}");
    assert_eq!(summary["holders"][0]["bytes"], 64_000_000, "{summary}");
    assert!(text(&run, &["summary"]).contains("  peak  61."), "{}", text(&run, &["summary"]));
    // Scopes of lost events are not known.
    let top = json(&run, &["top", "--json", "--by", "scope"]);
    assert!(top["is_of_run"] == false && top["active_bytes"].as_u64().unwrap() < 1_000_000, "{top}");
}

#[test]
fn a_gate_compares_the_peak_of_the_run_and_fails_what_it_knows_in_part() {
    let run = recorded("4096", &["early", "pairs"]);
    let gate = |options: &[&str]| {
        let found = asked(&run, &[&["gate"], options].concat());
        (found.status.code(), String::from_utf8(found.stdout).unwrap())
    };
    let (status, said) = gate(&["--max-peak", "10MiB"]);
    assert_eq!(status, Some(4), "{said}");
    assert!(said.contains("FAILED  peak is 61.") && said.contains("early"), "{said}");
    assert_eq!(gate(&["--max-peak", "100MiB"]).0, Some(0));
    assert_eq!(gate(&["--max-peak", "100MiB", "--max-live", "1MiB", "--strict"]).0, Some(0));
    let (status, said) = gate(&["--max-reserved", "1GiB"]);
    assert_eq!(status, Some(4), "{said}");
    assert!(
        said.contains("FAILED  reserved is only known of the last 4") && said.contains("--allow-partial"),
        "{said}"
    );
    assert_eq!(gate(&["--max-reserved", "1GiB", "--allow-partial"]).0, Some(0));
}

#[test]
fn blocks_whose_allocations_the_ring_lost_have_their_stacks() {
    let run = recorded("2048", &["kept"]);
    let top = text(&run, &["top", "--at", "start"]);
    assert!(!top.contains("(no stack)") && top.contains("kept"), "{top}");
    let top = json(&run, &["top", "--json", "--at", "start"]);
    assert!(first_group(&top)["blocks"].as_u64().unwrap() > 300, "{top}");
}

/// With all events the peak of a site is known; otherwise it is at most what its stacks had, and what the process had.
#[test]
fn peaks_of_several_stacks_of_a_site_are_not_added_up() {
    let ramp = |top: &Value| {
        let groups = top["groups"].as_array().unwrap();
        groups.iter().find(|group| group["bytes"] == 300_000_000).unwrap_or_else(|| panic!("{top}")).clone()
    };
    let run = recorded("100000", &["ramp"]);
    let top = json(&run, &["top", "--allocated", "--json"]);
    assert_eq!((&top["is_exact"], &top["is_of_run"]), (&true.into(), &true.into()), "{top}");
    assert_eq!(ramp(&top)["peak_bytes"], 100_000_000, "{top}");
    // The site cannot have had more than the process.
    let run = recorded("4096", &["ramp", "pairs"]);
    let top = json(&run, &["top", "--allocated", "--json"]);
    assert_eq!(top["is_of_run"], true, "{top}");
    let peak = ramp(&top)["peak_bytes"].as_u64().unwrap();
    assert!((100_000_000..101_000_000).contains(&peak), "{top}");
}
