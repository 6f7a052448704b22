//! `top --new`: what is allocated from a time on.

#![forbid(unsafe_code)]

use std::fs;

use serde_json::{Value, json};

use crate::support::{answer, run, stderr};

/// A file in which 4 MiB is held, and from 10 ms on 2 MiB, of which 1 MiB stays.
fn file() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parts.json");
    let entry = |action: &str, at: u64, mib: u64, ms: u64| {
        let frames = json!([{"name": format!("f{at}"), "filename": "a.py", "line": at}]);
        json!({"action": action, "addr": at << 32, "size": mib << 20, "stream": 0, "time_us": 1_700_000_000_000_000 + ms * 1000, "frames": frames})
    };
    let trace = [
        entry("alloc", 1, 4, 0),
        entry("alloc", 2, 1, 10),
        entry("alloc", 3, 1, 11),
        entry("free_requested", 3, 1, 12),
        entry("free_requested", 1, 4, 13),
        entry("alloc", 4, 1, 14),
        entry("free_completed", 3, 1, 15),
        entry("free_completed", 1, 4, 15),
        entry("free_requested", 4, 1, 16),
        entry("free_completed", 4, 1, 16),
    ];
    fs::write(&path, json!({"segments": [], "device_traces": [trace]}).to_string()).unwrap();
    (folder, path.to_str().unwrap().to_owned())
}

fn object(arguments: &[&str]) -> Value {
    serde_json::from_str(&answer(arguments)).unwrap()
}

#[test]
fn the_peak_and_what_is_left_are_in_the_text_and_in_json() {
    let (_folder, path) = file();
    let text = answer(&["top", "--new", "--since", "10ms", &path]);
    let head = "2.00 MiB allocated since event 1 and held in 2 blocks at the peak, after event 2 of 10; 1.00 MiB in 1";
    assert!(text.starts_with(head), "{text}");
    assert!(
        text.contains(" 50.0 %    1.00 MiB      1  f2 (a.py:2)\n") && text.contains("f3 (a.py:3)"),
        "{text}"
    );
    let of = |more: &[&str]| object(&[&["top", "--new", "--json"], more, &[path.as_str()]].concat());
    for since in ["10ms", "1700000000010000"] {
        let new = of(&["--since", since]);
        assert_eq!((&new["peak_bytes"], &new["left_bytes"]), (&json!(2 << 20), &json!(1 << 20)), "{since}");
        assert_eq!((&new["since_event"], &new["n_events"]), (&json!(0), &json!(9)), "{since}");
    }
    let end = of(&["--since", "10ms", "--at", "end"]);
    assert_eq!(
        (&end["event"], &end["allocated_bytes"], &end["blocks"]),
        (&json!(9), &json!(1 << 20), &json!(1))
    );
    let then = answer(&["top", "--new", "--since", "10ms", "--at", "3", &path]);
    assert!(then.replace("\n  ", " ").contains("; 1.00 MiB in 1 block after event 3 of 10\n"), "{then}");
    // From the beginning everything is new.
    let all = of(&[]);
    assert_eq!((&all["peak_bytes"], &all["since_event"]), (&json!(6 << 20), &Value::Null));
}

#[test]
fn what_does_not_fit_new_is_refused() {
    let (_folder, path) = file();
    let refused = |arguments: &[&str]| {
        let output = run(&[&["top"], arguments, &[path.as_str()]].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        stderr(&output).to_owned()
    };
    assert!(refused(&["--new", "--by", "owner"]).contains("--new counts blocks, which have no owners"));
    assert!(refused(&["--since", "1s"]).contains("--new"));
    assert!(refused(&["--new", "--tree"]).contains("cannot be used with"));
    assert!(refused(&["--new", "--since", "soon"]).contains("\"soon\" is not a time"));
}
