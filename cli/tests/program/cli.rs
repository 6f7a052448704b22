//! The program as its users meet it: what it prints, and its exit status.

use std::{
    fs::File,
    io::Read,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

fn memreel(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memreel"));
    command.args(arguments).current_dir(folder());
    command
}

fn folder() -> PathBuf {
    crate::repository("fixtures")
}

fn run(arguments: &[&str]) -> Output {
    memreel(arguments).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

const CLEAN: &str = "torch-2.11/snapshots/oom.pickle";
const WRAPPED: &str = "torch-2.11/snapshots/expandable_wrapped_ring.pickle";
const BROKEN: &str = "synthetic/stats2.pickle";

#[test]
fn a_clean_file_is_fine() {
    let output = run(&["validate", CLEAN]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output), format!("{CLEAN}: fine\n"));
}

#[test]
fn warnings_are_told_and_are_no_failure() {
    let output = run(&["validate", WRAPPED]);
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    assert!(text.starts_with(&format!("{WRAPPED}: W21 device_traces[0]: 4 frees")), "{text}");
    assert!(text.ends_with(&format!("{WRAPPED}: 0 E, 3 W, 0 P\n")), "{text}");
}

#[test]
fn severity_hides_findings_but_not_the_summary() {
    let output = run(&["validate", "--severity", "e", WRAPPED]);
    assert_eq!(stdout(&output), format!("{WRAPPED}: 0 E, 3 W, 0 P\n"));
    let output = run(&["validate", "--severity", "W", BROKEN]);
    let letters: String =
        stdout(&output).lines().filter_map(|line| line.split(": ").nth(1)?.chars().next()).collect();
    assert!(letters.contains('E') && letters.contains('W') && !letters.contains('P'), "{letters}");
}

#[test]
fn an_error_makes_the_status_1() {
    let output = run(&["validate", CLEAN, BROKEN, CLEAN]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains(&format!("{BROKEN}: E2 device_traces: is empty")));
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
fn what_cannot_be_read_makes_the_status_3() {
    let output = run(&["validate", BROKEN, "missing.pickle", CLEAN]);
    assert_eq!(output.status.code(), Some(3));
    let told = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(told.starts_with("memreel: missing.pickle: cannot be read: No such file"), "{told}");
    assert!(!stdout(&output).contains("missing.pickle"), "{}", stdout(&output));
    let output = run(&["validate", "generate.py"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stdout(&output).starts_with("generate.py: refused: no memory snapshot: the file is a text"));
    assert_eq!(stdout(&output).lines().count(), 1, "{}", stdout(&output));
}

#[test]
fn json_is_validated_as_the_pickle_of_the_same_is() {
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("broken.json");
    let snapshot = memreel::pickle::load(folder().join(BROKEN)).unwrap();
    std::fs::write(&file, serde_json::to_vec(&snapshot).unwrap()).unwrap();
    let name = file.to_str().unwrap();
    let output = run(&["validate", name]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output).replace(name, BROKEN), stdout(&run(&["validate", BROKEN])));
}

#[test]
fn wrong_usage_is_2() {
    for arguments in [&["validate"][..], &["validate", "--severity", "x", CLEAN], &["valid"], &[]] {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn help_has_an_example() {
    let output = run(&["validate", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("memreel validate --severity w snapshot.pickle"));
}

#[test]
fn a_closed_pipe_is_success() {
    // More lines than a pipe holds, and a reader that takes one byte of them.
    let many = vec![BROKEN; 400];
    let arguments: Vec<&str> = ["validate", "--json"].into_iter().chain(many).collect();
    let mut child = memreel(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdout.take().unwrap();
    pipe.read_exact(&mut [0]).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_told() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = memreel(&["validate", CLEAN]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("memreel: cannot write: "));
}
