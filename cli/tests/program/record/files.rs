//! The files that a run leaves: names, children, and processes that are killed, run others or lose their files.

#![forbid(unsafe_code)]

use std::{collections::BTreeSet, fs};

use memreel::Recovered;

use super::{Run, live_from, program, record};
use crate::{
    json_lines::{schema, validator},
    support,
};

const FILE: [&str; 3] = ["--heap", "-o", "run.pickle"];

/// Runs the program that does something with its heap, into `run.pickle`.
fn recorded(what: &[&str]) -> Run {
    let program = program("program");
    record(&FILE, &[&[&*program], what].concat()).run()
}

#[test]
fn children_have_files_with_rank_and_process() {
    let run = record(&FILE, &["sh", "-c", "ls /proc/self/stat; true"]).env("RANK", "3").run();
    assert_eq!((run.status, &*run.out), (Some(0), "/proc/self/stat\n"), "{}", run.err);
    let files = run.files();
    let [child, own] = &files[..] else { panic!("{files:?} {}", run.err) };
    assert_eq!(own, "run.pickle");
    let process = child.strip_prefix("run-rank3-").and_then(|rest| rest.strip_suffix(".pickle")).unwrap();
    let _: u32 = process.parse().unwrap();
    let lines = run.lines_of_processes();
    assert_eq!(lines.len(), 2, "{}", run.err);
    assert!(lines.iter().any(|line| line.starts_with(&format!("memreel: process {process}, rank 3: "))));
    assert!(lines.iter().all(|line| line.contains(" events, peak ")), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.ends_with(", run.pickle")).count(), 1, "{lines:?}");
    for (name, _) in run.snapshots() {
        let path = run.folder.path().join(name);
        assert_eq!(support::run(&["validate", path.to_str().unwrap()]).status.code(), Some(0));
    }
}

/// Tapes have paths and names of functions.
#[test]
fn tapes_are_their_users_alone() {
    let run =
        record(&FILE, &["sh", "-c", "ls >/dev/null; stat -c %a .memreel-record-* .memreel-record-*/*.tape"])
            .run();
    let modes: BTreeSet<&str> = run.out.lines().collect();
    assert_eq!(modes, BTreeSet::from(["600", "700"]), "{} {}", run.out, run.err);
}

#[test]
fn without_a_name_files_are_named_after_the_program() {
    let run = record(&["--heap"], &[&program("program")]).run();
    let files = run.files();
    let [file] = &files[..] else { panic!("{files:?} {}", run.err) };
    assert!(file.starts_with("memreel-program-") && file.ends_with(".pickle"), "{file}");
    assert_eq!(live_from(&run.snapshot(file), 100_000), run.counted());
    assert!(run.err.contains(&format!(", {file}\n")), "{}", run.err);
}

/// What a process recorded until SIGKILL or `abort` is on its tape.
#[test]
fn crashes_lose_nothing() {
    for (what, status) in [("killed", 137), ("aborted", 134)] {
        let run = recorded(&[what]);
        assert_eq!(run.status, Some(status), "{}", run.err);
        assert_eq!(live_from(&run.snapshot("run.pickle"), 100_000), run.counted(), "{what}");
        assert_eq!(run.files(), ["run.pickle"]);
    }
}

#[test]
fn a_process_that_runs_another_program_has_a_file_for_each() {
    let run = recorded(&["runs"]);
    assert_eq!(run.files(), ["run-1.pickle", "run.pickle"], "{}", run.err);
    for (name, snapshot) in run.snapshots() {
        assert_eq!(live_from(&snapshot, 100_000), run.counted(), "{name}");
    }
    let processes: BTreeSet<_> =
        run.lines_of_processes().iter().filter_map(|line| line.split(':').nth(1)).collect();
    assert_eq!((processes.len(), run.lines_of_processes().len()), (1, 2), "{}", run.err);
}

#[test]
fn a_fork_that_does_nothing_leaves_nothing() {
    let run = recorded(&["forks"]);
    assert_eq!(run.status, Some(0), "{}", run.err);
    assert_eq!(live_from(&run.snapshot("run.pickle"), 100_000), run.counted());
    assert_eq!(run.files(), ["run.pickle"], "{}", run.err);
    let n_forks = record(&FILE, &[&program("counting"), "5"]).run();
    assert_eq!((n_forks.status, n_forks.files().len()), (Some(0), 6), "{}", n_forks.err);
    n_forks.snapshots();
}

/// The program's own files get the numbers of ours, and nothing is written into them.
#[test]
fn a_program_that_closes_all_files_is_recorded() {
    let run = recorded(&["closed"]);
    assert_eq!(run.status, Some(0), "{}", run.err);
    for number in 0..8 {
        let mine = fs::read(run.folder.path().join(format!("mine-{number}"))).unwrap();
        assert_eq!(mine.len(), 4, "file {number}");
    }
    assert_eq!(live_from(&run.snapshot("run.pickle"), 100_000), run.counted(), "{}", run.err);
}

#[test]
fn tapes_are_kept_if_asked_for() {
    let program = program("program");
    let run = record(&["--heap", "-o", "run.pickle", "--keep-tape"], &[&program]).run();
    let named = run
        .err
        .lines()
        .find_map(|line| line.split_once(" is ").filter(|(what, _)| what.contains("the tape of")));
    let (_, tape) = named.unwrap_or_else(|| panic!("{}", run.err));
    let kept = Recovered::read(tape).unwrap();
    assert!(kept.is_closed() || !kept.is_running());
    assert_eq!(live_from(&kept.snapshot(), 100_000), run.counted());
    assert_eq!(live_from(&run.snapshot("run.pickle"), 100_000), run.counted());
    let files = run.files();
    assert!(files.len() == 2 && files[0].starts_with(".memreel-record-"), "{files:?}");
}

/// Dumps of `--every` and `--signal` are beside the snapshot of the program.
#[test]
fn dumps_are_beside_the_snapshot() {
    let options = ["--heap", "-o", "run.pickle", "--signal", "USR2"];
    let script = "kill -USR2 $$; while ! ls | grep -q signal; do sleep 0.05; done; exit 4";
    let run = record(&options, &["sh", "-c", script]).env("RANK", "2").run();
    assert_eq!(run.status, Some(4), "{}", run.err);
    let dumps: Vec<String> = run.files().into_iter().filter(|name| name.contains("signal")).collect();
    assert!(!dumps.is_empty() && dumps[0].starts_with("run-2-"), "{:?}", run.files());
    dumps.iter().for_each(|name| _ = run.snapshot(name));
}

#[test]
fn lines_are_json_if_asked_for() {
    let run = record(&["--heap", "-o", "run.pickle", "--json"], &[&program("program")]).run();
    let lines: Vec<serde_json::Value> =
        run.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["file"], &lines[0]["is_running"]), (&"run.pickle".into(), &false.into()));
    assert!(lines[0]["events"].as_u64().unwrap() >= 20, "{}", run.err);
    assert_eq!(lines[1]["files"], serde_json::json!(["run.pickle"]));
    assert!(validator(&schema(), "owners").is_valid(&lines[1]), "{}", run.err);
}
