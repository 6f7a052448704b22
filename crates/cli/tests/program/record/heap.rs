//! `--heap`: the heap of programs that count their own memory, and of programs that know nothing of it.

#![forbid(unsafe_code)]

use std::process::Command;

use serde_json::Value;

use super::{Run, Start, has, live, live_from, program, python, record};

const FILE: [&str; 3] = ["--heap", "-o", "run.pickle"];

/// Asserts that a program prints and returns what it does without us, and that its snapshots are valid.
fn assert_undisturbed(words: &[&str], prepare: &[&str]) -> Run {
    let prepared = |start: Start| {
        for command in prepare {
            let done =
                Command::new("sh").args(["-c", command]).current_dir(start.folder.path()).output().unwrap();
            assert!(done.status.success(), "{command}: {done:?}");
        }
        start.run()
    };
    let (plain, run) = (prepared(Start::of(words[0], &words[1..])), prepared(record(&FILE, words)));
    assert_eq!((run.status, &run.out), (plain.status, &plain.out), "{words:?}: {}", run.err);
    assert!(run.err.starts_with(&plain.err), "{words:?}: {}", run.err);
    let snapshots = run.snapshots();
    assert!(!snapshots.is_empty(), "{words:?}: {}", run.err);
    for (name, snapshot) in snapshots {
        assert!(snapshot.device_traces.iter().any(|trace| !trace.is_empty()), "{name}");
    }
    run
}

#[test]
fn every_block_of_threads_is_there() {
    let run = record(&FILE, &[&program("counting")]).run();
    let counted = run.counted();
    assert!(run.status == Some(0) && counted.0 > 50, "{}", run.err);
    let snapshot = run.snapshot("run.pickle");
    assert_eq!(live_from(&snapshot, 100_000), counted);
    assert!(snapshot.usage().iter().any(|usage| usage.name == "heap of the process"));
    // The table has this memory, and what asked for it.
    assert!(run.err.contains("heap of the process"), "{}", run.err);
    assert!(run.err.contains("program "), "{}", run.err);
    let now = |row: &str| -> Vec<&str> {
        let line = run.err.lines().find(|line| line.starts_with(row)).unwrap_or("");
        line.split_whitespace().skip(1).take(2).collect()
    };
    // What is resident, if it was looked at, which at the peak may have been more than at any look; or blocks alone.
    let all = if run.err.contains("the kernel last reported") { now("used ") } else { now("program ") };
    assert!(!all.is_empty() && now("sum ") == all, "{}", run.err);
}

/// What a program allocated is counted, whatever the ring lost.
#[test]
fn what_was_allocated_is_exact_with_a_small_ring() {
    let run =
        record(&["--heap", "--ring", "4096", "-o", "run.pickle"], &[&program("resident"), "survivors"]).run();
    assert!(run.err.contains(" oldest were dropped; --ring COUNT keeps more), peak "), "{}", run.err);
    let answer = |words: &[&str]| -> Value {
        let mut memreel = Command::new(env!("CARGO_BIN_EXE_memreel"));
        let found = memreel.args(words).current_dir(run.folder.path()).output().unwrap();
        serde_json::from_slice(&found.stdout).unwrap_or_else(|_| panic!("{found:?} {}", run.err))
    };
    let top = answer(&["top", "--allocated", "--json", "--device", "1", "run.pickle"]);
    assert_eq!((&top["is_of_run"], &top["is_exact"]), (&true.into(), &true.into()), "{top}");
    let largest = &top["groups"][0];
    assert_eq!((&largest["blocks"], &largest["bytes"]), (&348_000.into(), &69_600_000.into()), "{largest}");
    // All are live before the first is freed.
    assert_eq!(largest["peak_bytes"], 69_600_000, "{largest}");
    let leaks = answer(&["leaks", "--json", "--device", "1", "run.pickle"]);
    let site =
        leaks["sites"].as_array().and_then(|sites| sites.iter().find(|site| site["allocated"] == 348_000));
    let [live, freed] =
        ["live", "freed"].map(|count| site.and_then(|site| site[count].as_u64()).unwrap_or(0));
    assert!(live > 0 && live + freed == 348_000, "{leaks}");
}

/// The block of a `realloc` that fails was allocated once.
#[test]
fn a_call_that_fails_changes_nothing() {
    let run = record(&["--heap", "-o", "run.pickle"], &[&program("program"), "fails"]).run();
    assert_eq!(run.status, Some(0), "{}", run.err);
    let snapshot = run.snapshot("run.pickle");
    assert_eq!(live_from(&snapshot, 100_000), run.counted(), "{}", run.err);
    let entries = snapshot.device_traces.iter().flatten();
    assert_eq!(entries.filter(|entry| entry.size == 500_000).count(), 1, "{}", run.err);
}

/// The worker of a server that root starts may not make a file any more.
#[test]
fn a_child_that_gives_its_rights_away_is_recorded() {
    let words = [&*program("program"), "dropped"];
    let plain = Start::of(words[0], &words[1..]).run();
    if plain.status != Some(0) {
        println!("skipped: this is not root");
        return;
    }
    let run = record(&["--heap", "-o", "run.pickle"], &words).run();
    assert_eq!((run.status, &run.out), (Some(0), &plain.out), "{}", run.err);
    let found = run.snapshots().iter().any(|(_, snapshot)| live_from(snapshot, 600_000) == (3, 1_800_003));
    assert!(found && !run.err.contains("not recorded"), "{}", run.err);
}

/// Python's own objects of known sizes, and the lines that made them.
#[test]
fn the_heap_of_python_has_its_lines() {
    let Some(python) = python() else { return };
    const SCRIPT: &str = "
import os, threading
def load_weights(n):
    return bytearray(2_000_000 + n)
kept = [load_weights(n) for n in range(10)]
threads = [threading.Thread(target=lambda n=n: kept.append(load_weights(n))) for n in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(kept), sum(block.__alloc__() for block in kept), flush=True)
os._exit(5)
";
    let start = record(&[&FILE[..], &["--stacks", "all"]].concat(), &[&*python, "script.py"]);
    std::fs::write(start.path("script.py"), SCRIPT).unwrap();
    let run = start.run();
    assert_eq!(run.status, Some(5), "{}", run.err);
    let snapshot = run.snapshot("run.pickle");
    assert_eq!(live_from(&snapshot, 2_000_000), run.counted(), "{}", run.err);
    let large: Vec<_> = live(&snapshot).filter(|block| block.requested_size >= 2_000_000).collect();
    for block in large {
        let frames: Vec<_> = snapshot.stacks.frames(block.stack.unwrap()).collect();
        let has_line = |frame: &&memreel_snapshot::model::Frame| {
            &*frame.name == "load_weights" && frame.filename.ends_with("script.py") && frame.line == 4
        };
        assert!(frames.iter().any(|frame| has_line(&&**frame)), "{frames:?}");
    }
}

/// `pthread_getattr_np` allocates while it holds a lock that a recorder takes too: Rust programs begin with it.
#[test]
fn a_thread_that_begins_with_its_attributes_goes_on() {
    let run = record(&FILE, &["timeout", "60", &program("program"), "attributes"]).run();
    assert_eq!(run.status, Some(0), "{}", run.err);
    let recorded =
        run.snapshots().into_iter().any(|(_, snapshot)| live_from(&snapshot, 100_000) == run.counted());
    assert!(recorded, "{}", run.err);
}

/// A thread's end frees the loader's text of an error, if there is one.
#[test]
fn threads_end_after_any_number_of_captures() {
    let run = record(&FILE, &["timeout", "60", &program("program"), "threads"]).run();
    assert_eq!(run.status, Some(0), "{}", run.err);
}

/// They have the tape of their parent and write nothing there; nothing of them is recorded.
#[test]
fn children_of_forks_without_handlers_are_not_recorded() {
    let run = record(&FILE, &["timeout", "60", &program("program"), "unseen"]).run();
    assert_eq!(run.status, Some(0), "{}", run.err);
    let recorded = run.snapshots().into_iter().map(|(_, snapshot)| live_from(&snapshot, 100_000));
    let recorded: Vec<_> = recorded.filter(|live| *live != (0, 0)).collect();
    assert_eq!(recorded, [run.counted()], "{}", run.err);
    // A line reports them.
    assert!(run.err.contains(": 40 children were forked by `_Fork` or a system call"), "{}", run.err);
}

#[test]
fn programs_behave_as_without_it() {
    assert_undisturbed(&["ls", "/proc/self/task/../attr"], &[]);
    assert_undisturbed(&["sh", "-c", "for i in 1 2 3; do echo $i | cat; done; ls missing; exit 3"], &[]);
    // The descriptors of the program's own files are free, and the others an error.
    assert_undisturbed(
        &["sh", "-c", "for n in 3 4 5 6 9; do (echo mine >&$n) && echo open $n; done; exit 3"],
        &[],
    );
    if let Some(python) = python() {
        let script =
            "import json, threading; print(sum(len(json.dumps([i] * 50)) for i in range(500))); 1 / 0";
        assert_undisturbed(&[&*python, "-c", script], &[]);
    }
    if has("git") {
        let prepare = ["git init -q . && echo one > file && git add file && echo two >> file"];
        let run = assert_undisturbed(&["git", "status", "--porcelain"], &prepare);
        assert!(run.out.starts_with("AM file\n"), "{}", run.out);
        assert_undisturbed(&["git", "--version"], &[]);
    }
}
