//! `memreel validate`: findings, severities and exit statuses.

#![forbid(unsafe_code)]

use serde_json::Value;

use crate::support::{fixture, run, stdout};

const CLEAN: &str = "torch-2.11/snapshots/oom.pickle";
const WRAPPED: &str = "torch-2.11/snapshots/expandable_wrapped_ring.pickle";
const BROKEN: &str = "synthetic/stats2.pickle";

#[test]
fn a_clean_file_is_fine() {
    let output = run(&["validate", CLEAN]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output), format!("{CLEAN}: valid\n"));
}

#[test]
fn warnings_are_printed_and_do_not_fail() {
    let output = run(&["validate", WRAPPED]);
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    assert!(text.starts_with(&format!("{WRAPPED}: W21 device_traces[0]: 4 blocks are freed")), "{text}");
    assert!(
        text.ends_with(&format!(
            "{WRAPPED}: 0 errors (E), 3 warnings (W), 0 differences from what PyTorch writes (P)\n"
        )),
        "{text}"
    );
}

#[test]
fn severity_hides_findings_but_not_the_summary() {
    let output = run(&["validate", "--severity", "e", WRAPPED]);
    assert_eq!(
        stdout(&output),
        format!("{WRAPPED}: 0 errors (E), 3 warnings (W), 0 differences from what PyTorch writes (P)\n")
    );
    let output = run(&["validate", "--severity", "W", BROKEN]);
    let letters: String =
        stdout(&output).lines().filter_map(|line| line.split(": ").nth(1)?.chars().next()).collect();
    assert!(letters.contains('E') && letters.contains('W') && !letters.contains('P'), "{letters}");
}

#[test]
fn an_error_makes_the_status_1() {
    let output = run(&["validate", CLEAN, BROKEN, CLEAN]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains(&format!("{BROKEN}: E2 device_traces: the list is empty")));
}

#[test]
fn json_is_an_object_a_line_and_a_summary() {
    let output = run(&["validate", "--json", WRAPPED, CLEAN]);
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5);
    assert_eq!((&lines[0]["rule"], &lines[0]["severity"]), (&21.into(), &"W".into()));
    assert_eq!((&lines[0]["file"], &lines[0]["place"]), (&WRAPPED.into(), &"device_traces[0]".into()));
    assert_eq!(lines[3]["summary"], serde_json::json!({"E": 0, "W": 3, "P": 0}));
    assert_eq!((&lines[4]["file"], &lines[4]["refused"]), (&CLEAN.into(), &Value::Null));
}

#[test]
fn an_unreadable_file_makes_the_status_3() {
    let output = run(&["validate", BROKEN, "missing.pickle", CLEAN]);
    assert_eq!(output.status.code(), Some(3));
    let message = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(message.starts_with("memreel: missing.pickle: cannot be read: No such file"), "{message}");
    assert!(!stdout(&output).contains("missing.pickle"), "{}", stdout(&output));
    let output = run(&["validate", "generate.py"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stdout(&output).starts_with("generate.py: refused: not a memory snapshot but a text file"));
    assert_eq!(stdout(&output).lines().count(), 1, "{}", stdout(&output));
}

#[test]
fn json_has_the_findings_of_the_same_pickle() {
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("broken.json");
    let snapshot = memreel_snapshot::pickle::load(fixture(BROKEN)).unwrap();
    std::fs::write(&file, serde_json::to_vec(&snapshot).unwrap()).unwrap();
    let name = file.to_str().unwrap();
    let output = run(&["validate", name]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output).replace(name, BROKEN), stdout(&run(&["validate", BROKEN])));
}

#[test]
fn help_has_an_example() {
    let output = run(&["validate", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("memreel validate --severity w snapshot.pickle"));
}
