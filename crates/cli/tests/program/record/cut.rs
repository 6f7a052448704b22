//! Tapes that a process of the run makes shorter: the program and the recording go on, and the rest is saved.

#![forbid(unsafe_code)]

use super::{cc, record, source};

const SHORTER: &str = "another program truncated its tape";

#[test]
fn a_tape_that_is_cut_short_ends_nothing() {
    // Nothing, half of the header, the header, a part of the first step.
    for left in ["0", "2000", "4096", "200000"] {
        let start = record(&["--heap", "-o", "run.pickle"], &["./cutting", left]);
        cc(&["-o", start.path("cutting").to_str().unwrap(), &source("cutting.c")]);
        let run = start.run();
        assert_eq!((run.status, &*run.out), (Some(7), "ended\n"), "{left}: {}", run.err);
        assert!(run.err.contains(SHORTER), "{left}: {}", run.err);
        let tapes = run.files().into_iter().filter(|name| name.contains(".memreel-record"));
        assert_eq!(tapes.count(), 0, "{left}: {}", run.err);
    }
}
