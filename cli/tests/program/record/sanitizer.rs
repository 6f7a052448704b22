//! Programs with AddressSanitizer, whose allocator serves behind ours.

#![forbid(unsafe_code)]

use super::{Start, cc, live_from, record, source};

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
        if what == "right" && !is_there() {
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

fn is_there() -> bool {
    let start =
        Start::of("sh", &["-c", "echo 'int main(void) { return 0; }' > a.c && cc -fsanitize=address a.c"]);
    start.run().status == Some(0)
}
