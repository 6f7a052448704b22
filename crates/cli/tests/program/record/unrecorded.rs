//! What a run did not record, and the gate over all of a run.

#![forbid(unsafe_code)]

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use serde_json::Value;

use super::{Run, cc, program, record};
use crate::support::{self, stdout};

const FILE: [&str; 3] = ["--heap", "-o", "run.pickle"];

/// The file of the run.
fn file_of(run: &Run) -> Value {
    let text = fs::read_to_string(run.folder.path().join("run.memreel"));
    serde_json::from_str(&text.unwrap_or_else(|error| panic!("{error}: {}", run.err))).unwrap()
}

/// The names, numbers and reasons of what was not recorded.
fn not_recorded(run: &Run) -> Vec<(String, u64, String)> {
    let file = file_of(run);
    let group = |group: &Value| {
        let text = |key: &str| group[key].as_str().unwrap_or_default().to_owned();
        (text("name"), group["n_processes"].as_u64().unwrap(), text("why"))
    };
    file["not_recorded"].as_array().unwrap().iter().map(group).collect()
}

/// Runs the gate over the run, and returns its status and what it prints.
fn gate(run: &Run, words: &[&str]) -> (Option<i32>, String) {
    let path = run.folder.path().join("run.memreel").display().to_string();
    let gated = support::run(&[&["gate"], words, &[&path]].concat());
    (gated.status.code(), stdout(&gated).to_owned())
}

#[test]
fn what_runs_without_the_libraries_is_named_and_fails_the_gate() {
    // The first two live for a moment, and the library reports them; the others are seen.
    let other = program("libshim.so");
    let script = "env -i ls >/dev/null; LD_PRELOAD=$0 ls >/dev/null
        env -i sleep 1 & env -i sleep 1 & LD_PRELOAD=$0 sleep 1 & env -u LD_PRELOAD sleep 1; wait";
    let run = record(&FILE, &["sh", "-c", script, &other]).run();
    assert_eq!((run.status, &*run.out), (Some(0), ""), "{}", run.err);
    let cleared = "its environment was cleared, including LD_PRELOAD";
    let replaced = "its LD_PRELOAD has libshim.so in place of memreel's libraries";
    let mut found = not_recorded(&run);
    found.sort();
    let group = |name: &str, n, why: &str| (name.to_owned(), n, why.to_owned());
    let mut expected = vec![
        group("ls", 1, cleared),
        group("ls", 1, replaced),
        group("sleep", 2, cleared),
        group("sleep", 1, replaced),
        group("sleep", 1, "LD_PRELOAD was removed from its environment"),
    ];
    expected.sort();
    assert_eq!(found, expected, "{}", run.err);
    assert!(
        run.err.contains(&format!("memreel: sleep ran unrecorded, 2 processes: {cleared}\n")),
        "{}",
        run.err
    );
    assert!(
        run.err.contains("memreel: run.memreel lists all files of this run; pass it to `memreel gate` to check the whole run\n"),
        "{}",
        run.err
    );
    let (status, text) = gate(&run, &["--max-peak", "1GiB"]);
    assert!(status == Some(4) && text.contains("FAILED  ls ran unrecorded: its "), "{text}");
    let (status, text) = gate(&run, &["--max-peak", "1GiB", "--allow-unrecorded"]);
    assert!(status == Some(0) && text.contains("of the run"), "{text}");
}

/// A start that fails is of no process, and one that looks in several folders is one.
#[test]
fn a_program_that_does_not_start_is_not_named() {
    let script = "env -i /no/such/program; env -i sh -c true; env -i PATH=/no/such:$PATH true";
    let run = record(&FILE, &["sh", "-c", script]).run();
    let named: Vec<(String, u64)> = not_recorded(&run).into_iter().map(|(name, n, _)| (name, n)).collect();
    assert_eq!(named.iter().map(|(_, n)| n).sum::<u64>(), 2, "{named:?} {}", run.err);
}

#[test]
fn a_static_program_is_named_and_the_tools_of_the_loader_fail_no_gate() {
    let start = record(
        &FILE,
        &["sh", "-c", "./static; /sbin/ldconfig -p >/dev/null; env -i /sbin/ldconfig -p >/dev/null"],
    );
    fs::write(start.path("static.c"), "int main(void) { return 0; }").unwrap();
    let (source, binary) = (start.path("static.c"), start.path("static"));
    let made = Command::new("cc").args(["-static", "-o"]).args([&binary, &source]).output().unwrap();
    if !made.status.success() || !std::path::Path::new("/sbin/ldconfig").exists() {
        println!("skipped: no static C library");
        return;
    }
    let run = start.run();
    let named: Vec<(String, u64)> = not_recorded(&run).into_iter().map(|(name, n, _)| (name, n)).collect();
    assert!(named.contains(&("static".into(), 1)), "{named:?} {}", run.err);
    assert!(run.err.contains("static ran unrecorded: ./static is statically linked"), "{}", run.err);
    let minor: Vec<bool> =
        file_of(&run)["not_recorded"].as_array().unwrap().iter().map(|of| of["is_minor"] == true).collect();
    let (status, text) = gate(&run, &["--max-peak", "1GiB"]);
    assert!(status == Some(4) && !text.contains("ldconfig") && minor.contains(&true), "{minor:?} {text}");
}

/// The library leaves its own out of such an environment, where its files are not.
#[test]
fn a_worker_in_another_root_is_named() {
    let script = "mount --bind empty $1 2>/dev/null && exec sleep 3";
    let libraries = super::libraries();
    let words = ["unshare", "--mount", "sh", "-c", script, "sh", libraries.to_str().unwrap()];
    let start = record(&FILE, &words);
    fs::create_dir(start.path("empty")).unwrap();
    if !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
        println!("skipped: unshare is refused here");
        return;
    }
    let run = start.run();
    assert_eq!(run.status, Some(0), "{}", run.err);
    let why = "it runs in another root or container, without memreel's libraries";
    assert_eq!(not_recorded(&run), [("sleep".into(), 1, why.into())], "{}", run.err);
}

/// A process that is stopped before its loader ran has no library then, whether or not it is looked at again later.
#[test]
fn a_process_that_starts_slowly_is_recorded() {
    for seconds_after in ["0", "1"] {
        let start = record(&FILE, &[&program("stopped")]).env("SECONDS_AFTER", seconds_after);
        let run = start.run();
        if run.status == Some(9) {
            println!("skipped: no program may be traced here");
            return;
        }
        assert_eq!(run.status, Some(0), "{}", run.err);
        assert_eq!(not_recorded(&run), [], "{}", run.err);
        assert_eq!(file_of(&run)["processes"].as_array().unwrap().len(), 1, "{}", run.err);
        assert_eq!(gate(&run, &["--max-peak", "1GiB"]).0, Some(0));
    }
}

/// An allocator in front of memreel's serves the program, whose heap is missing.
#[test]
fn an_allocator_in_front_is_named() {
    let front = program("libfront.so");
    let run = record(&FILE, &["sh", "-c", "LD_PRELOAD=$0:$LD_PRELOAD ls >/dev/null", &front]).run();
    assert!(
        run.err.contains("memreel: the heap is not recorded: another library's malloc comes before"),
        "{}",
        run.err
    );
    let why = "another library's malloc comes before memreel's, so its heap is missing";
    assert_eq!(not_recorded(&run), [("ls".into(), 1, why.into())], "{}", run.err);
}

/// A start that fails is no other program, and takes nothing else back.
#[test]
fn an_allocator_in_front_is_named_though_a_start_fails() {
    let front = program("libfront.so");
    let start =
        record(&FILE, &["sh", "-c", "LD_PRELOAD=$0:$LD_PRELOAD $1 fails ./none", &front, &program("starts")]);
    let none = start.path("none");
    fs::write(&none, "no program").unwrap();
    fs::set_permissions(&none, fs::Permissions::from_mode(0o755)).unwrap();
    let run = start.run();
    let why = "another library's malloc comes before memreel's, so its heap is missing";
    assert_eq!(
        (run.status, not_recorded(&run)),
        (Some(0), vec![("starts".into(), 1, why.into())]),
        "{}",
        run.err
    );
}

/// As a container has a filter of system calls, and a sandbox one that ends what it does not know.
#[test]
fn what_starts_under_a_filter_is_named() {
    let cleared = "its environment was cleared, including LD_PRELOAD";
    for way in ["contained", "filtered", "at"] {
        let run = record(&FILE, &[&program("starts"), way]).run();
        assert_eq!(run.status, Some(0), "{way}: {}", run.err);
        assert_eq!(not_recorded(&run), [("true".into(), 1, cleared.into())], "{way}: {}", run.err);
    }
}

/// Neither the program nor the recorder waits for one.
#[test]
fn a_pipe_in_place_of_the_reports_is_not_waited_for() {
    let words = [
        "timeout",
        "-k",
        "1",
        "60",
        env!("CARGO_BIN_EXE_memreel"),
        "record",
        "--heap",
        "--",
        &program("starts"),
        "pipe",
    ];
    let run = super::Start::of(words[0], &words[1..]).run();
    assert_eq!(run.status, Some(0), "{}", run.err);
}

#[test]
fn a_long_list_of_libraries_leaves_room_for_the_name() {
    let run = record(&FILE, &[&program("starts"), "preloads"]).run();
    let found = not_recorded(&run);
    assert!(
        found.len() == 1 && found[0].0 == "true" && found[0].2.contains("has lib0000"),
        "{found:?} {}",
        run.err
    );
}

/// A script of three tests, one of which needs too much: the shell's own snapshot is green.
#[test]
fn the_gate_of_a_run_sees_the_test_that_needs_too_much() {
    let script = "./needs 2; ./needs 40; ./needs 3; for i in 1 2 3 4 5 6 7 8 9 10; do ls >/dev/null; done";
    let start = record(&FILE, &["sh", "-c", script]);
    let text = "#include <stdlib.h>\n#include <string.h>\nint main(int n, char **words) {\n\
                size_t bytes = atoi(words[1]) * 1048576; return memset(malloc(bytes), 1, bytes) == 0; }\n";
    fs::write(start.path("needs.c"), text).unwrap();
    cc(&["-o", start.path("needs").to_str().unwrap(), start.path("needs.c").to_str().unwrap()]);
    let run = start.run();
    assert_eq!(run.status, Some(0), "{}", run.err);
    let own = run.folder.path().join("run.pickle").display().to_string();
    let green = support::run(&["gate", "--max-peak", "20MiB", &own]);
    assert_eq!(green.status.code(), Some(0), "{}", stdout(&green));
    let (status, text) = gate(&run, &["--max-peak", "20MiB"]);
    assert_eq!(status, Some(4), "{text}");
    assert_eq!(text.matches("FAILED  peak is 40.00 MiB").count(), 1, "{text}");
    assert!(text.contains("ok      recorded: 14 snapshots of the run, 10 of them helpers\n"), "{text}");
    assert_eq!(gate(&run, &["--max-peak", "50MiB"]).0, Some(0));
    // A helper over a limit fails too, and has a line then.
    let (status, text) = gate(&run, &["--max-peak", "1KiB"]);
    assert!(
        status == Some(4) && text.contains("run-helpers/") && text.contains("10 of the helpers failed"),
        "{text}"
    );
    let folder = run.folder.path().display().to_string();
    assert_eq!(support::run(&["gate", "--max-peak", "20MiB", &folder]).status.code(), Some(4));
    let json = gate(&run, &["--max-peak", "20MiB", "--json"]).1;
    assert!(json.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{json}");
}

/// `python3` of pyenv is a script, which starts dozens of others before it becomes the interpreter.
#[test]
fn many_helpers_are_one_line_and_one_folder() {
    let script = "for i in 1 2 3 4 5 6 7 8 9; do ls >/dev/null; done; [ $0 = 0 ] || exec sh -c \"$1\" $(($0-1)) \"$1\"; exec $2";
    let script = script.replace("\"$1\"; exec", "\"$1\" \"$2\"; exec");
    let run = record(&FILE, &["sh", "-c", &script, "2", &script, &program("program")]).run();
    let shown: Vec<String> = run.files().into_iter().filter(|name| !name.starts_with("mine")).collect();
    assert_eq!(shown, ["run-helpers", "run.pickle"], "{}", run.err);
    let line =
        run.err.lines().find(|line| line.contains(" helpers, each with a peak below 1.00 MiB: run-helpers/"));
    let line = line.unwrap_or_else(|| panic!("{}", run.err));
    let n: usize = line.split(' ').nth(1).unwrap().parse().unwrap();
    let in_folder = fs::read_dir(run.folder.path().join("run-helpers")).unwrap().count();
    assert!(n == in_folder && n >= 27, "{line}");
    assert_eq!(run.lines_of_processes().len(), 1, "{}", run.err);
    assert!(
        run.err.contains("heap of the process") || run.err.contains("heaps of the processes: "),
        "{}",
        run.err
    );
    let processes = file_of(&run)["processes"].as_array().unwrap().len();
    assert_eq!(processes, n + 1);
    for name in fs::read_dir(run.folder.path().join("run-helpers")).unwrap().take(3) {
        run.snapshot(name.unwrap().path().to_str().unwrap());
    }
}

/// What a child does after the end of its launcher is not measured.
#[test]
fn a_process_that_outlives_the_run_fails_the_gate() {
    let script = "sleep 60 >/dev/null 2>&1 & echo $!; while ! grep -qs memreel $MEMREEL_RECORD/$!-*.tape; do ls >/dev/null; done";
    let run = record(&FILE, &["sh", "-c", script]).run();
    let process = run.out.trim().to_owned();
    let (status, text) = gate(&run, &["--max-peak", "1GiB"]);
    assert!(std::process::Command::new("kill").arg(&process).status().unwrap().success());
    let why =
        "sleep ran unrecorded: it was still running when the run ended, so only its beginning is recorded";
    assert!(status == Some(4) && text.contains(why), "{text}{}", run.err);
    assert_eq!(gate(&run, &["--max-peak", "1GiB", "--allow-unrecorded"]).0, Some(0));
}

#[test]
fn a_run_of_nothing_is_no_success() {
    let run = record(&FILE, &["true"]).run();
    let path = run.folder.path().join("run.memreel");
    fs::write(
        &path,
        "{\"memreel_run\": 1, \"program\": [], \"processes\": [], \"not_recorded\": [], \"failures\": [], \"failed_calls\": []}",
    )
    .unwrap();
    let (status, text) = gate(&run, &["--max-peak", "1GiB", "--allow-unrecorded"]);
    assert!(status == Some(4) && text.contains("FAILED  no processes of the run were recorded"), "{text}");
    fs::write(&path, "{}").unwrap();
    assert_eq!(gate(&run, &["--max-peak", "1GiB"]).0, Some(3));
}
