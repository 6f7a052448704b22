//! Programs with AddressSanitizer, whose allocator serves behind ours, with ThreadSanitizer, and under valgrind: none of them sees
//! memreel's own work.

#![forbid(unsafe_code)]

use super::{Start, cc, has, live_from, record, source};

const FILE: [&str; 3] = ["--heap", "-o", "run.pickle"];

/// What it prints differs by addresses, so the lines that name a fault are compared.
fn faults(err: &str) -> Vec<String> {
    let named = err.lines().filter_map(|line| line.split_once("ERROR: ")).map(|(_, fault)| fault);
    named.map(|fault| fault.split(" on ").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_program_with_a_sanitizer_behaves_as_without_us() {
    for (what, status) in [("right", 0), ("used", 1), ("leaks", 1), ("threads", 0)] {
        let start = record(&FILE, &["./sanitized", what]);
        let built = start.path("sanitized");
        if what == "right" && !is_there("address") {
            println!("skipped: no AddressSanitizer");
            return;
        }
        cc(&["-fsanitize=address", "-o", built.to_str().unwrap(), &source("sanitized.c"), "-lpthread"]);
        let plain = Start::of(built.to_str().unwrap(), &[what]).run();
        let run = start.run();
        assert_eq!(plain.status, Some(status), "{what}: {}", plain.err);
        assert_eq!((run.status, &run.out), (plain.status, &plain.out), "{what}: {}", run.err);
        assert_eq!(faults(&run.err), faults(&plain.err), "{what}: {}", run.err);
        assert_eq!(live_from(&run.snapshot("run.pickle"), 100_000), run.counted(), "{what}: {}", run.err);
    }
}

/// The locks of memreel are not those that it knows.
#[test]
fn a_program_without_races_has_none() {
    if !is_there("thread") {
        println!("skipped: no ThreadSanitizer");
        return;
    }
    for _ in 0..2 {
        let start = record(&FILE, &["./sanitized", "stacks"]);
        let built = start.path("sanitized");
        cc(&["-fsanitize=thread", "-o", built.to_str().unwrap(), &source("sanitized.c"), "-lpthread"]);
        let run = start.run();
        assert_eq!((run.status, &*run.out), (Some(0), "3 300003\n"), "{}", run.err);
        assert!(!run.err.contains("ThreadSanitizer"), "{}", run.err);
        assert_eq!(live_from(&run.snapshot("run.pickle"), 100_000), run.counted(), "{}", run.err);
    }
}

/// What looks from outside finds memreel's memory reachable, and nothing that memreel does with what is not written.
#[test]
fn valgrind_finds_nothing_of_memreel() {
    if !has("valgrind") {
        return;
    }
    let start = record(&FILE, &[]);
    let clean = start.path("clean").display().to_string();
    cc(&["-o", &clean, &source("sanitized.c"), "-lpthread"]);
    for what in ["right", "starts"] {
        let words = ["valgrind", "-q", "--leak-check=full", "--error-exitcode=9", &clean, what];
        let plain = Start::of(words[0], &words[1..]).run();
        assert_eq!(plain.status, Some(0), "{what}: {}", plain.err);
        let run = record(&FILE, &words).run();
        assert_eq!((run.status, &run.out), (plain.status, &plain.out), "{what}: {}", run.err);
        assert!(!run.err.contains("lost in loss record"), "{what}: {}", run.err);
    }
}

fn is_there(sanitizer: &str) -> bool {
    let script =
        format!("echo 'int main(void) {{ return 0; }}' > a.c && cc -fsanitize={sanitizer} a.c && ./a.out");
    Start::of("sh", &["-c", &script]).run().status == Some(0)
}
