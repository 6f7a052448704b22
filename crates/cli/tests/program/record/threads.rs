//! A recorded process has its own threads only: the list of its live blocks is kept by `memreel record`.

#![forbid(unsafe_code)]

use super::{Run, Start, live_from, program, record};

/// A ring that drops nearly all of the program's events.
const OPTIONS: [&str; 5] = ["--heap", "--ring", "4096", "-o", "run.pickle"];

fn recorded(words: &[&str]) -> Run {
    record(&OPTIONS, words).run()
}

fn plain(words: &[&str]) -> Run {
    Start::of(words[0], &words[1..]).run()
}

fn threads(run: &Run) -> Option<&str> {
    run.err.lines().find(|line| line.starts_with("threads: "))
}

/// One thread more would make `unshare` of user namespaces fail.
#[test]
fn a_process_has_its_own_threads_only() {
    for what in ["alone", "together"] {
        let words = [&*program("program"), what];
        let (plain, run) = (plain(&words), recorded(&words));
        assert_eq!((run.status, threads(&run)), (plain.status, threads(&plain)), "{what}: {}", run.err);
        assert!(threads(&run).is_some(), "{what}: {}", run.err);
        assert_eq!(live_from(&run.snapshot("run.pickle"), 100_000), run.counted(), "{what}");
        assert!(!run.err.contains("not in the list of live blocks"), "{what}: {}", run.err);
    }
}

/// The first report opens the recording, which takes a while.
#[test]
fn threads_that_allocate_first_and_at_one_time_lose_no_block() {
    for words in [&[&*program("first")][..], &[&program("first"), "in a child"]] {
        let run = recorded(words);
        assert_eq!(run.status, Some(0), "{}", run.err);
        let lived: Vec<_> =
            run.snapshots().iter().map(|(_, snapshot)| live_from(snapshot, 100_000)).collect();
        assert!(lived.contains(&run.counted()), "{words:?}: {lived:?}, not {}", run.out);
    }
}

#[test]
fn a_process_ends_with_its_last_thread() {
    let words = ["timeout", "60", &program("program"), "last"];
    let (plain, run) = (plain(&words), recorded(&words));
    assert_eq!((run.status, &run.out), (plain.status, &plain.out), "{}", run.err);
    assert_eq!(run.status, Some(0));
}
