//! What the rows and the headings of a list show.

#![forbid(unsafe_code)]

use crate::support::answer;

/// The user's own line is often the outermost call.
#[test]
fn the_outermost_call_is_shown() {
    let file = "torch-2.11/snapshots/transformer_all_stacks.pickle";
    let text = answer(&["top", file]);
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("← ")).collect();
    let n = rows.iter().filter(|line| line.contains("<module> (real_snapshots.py")).count();
    assert!(n > 3, "{text}");
    assert!(!answer(&["top", "--frames", "2", file]).contains("<module> (real_snapshots.py"), "two calls");
}

#[test]
fn memory_that_waits_for_a_stream_is_in_the_headings() {
    let file = "torch-2.11/snapshots/pending_free.pickle";
    for arguments in [&["top", file][..], &[file]] {
        let text = answer(arguments);
        assert!(text.contains(" of it freed and waiting for a stream"), "{text}");
    }
    let whole = answer(&["top", "torch-2.11/snapshots/oom.pickle"]);
    assert!(!whole.contains("waiting"), "{whole}");
}

#[test]
fn blocks_without_a_stack_are_explained_beside_others() {
    let note = "note: (no stack) is memory from before the recording";
    assert!(answer(&["top", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]).contains(note));
    assert!(!answer(&["top", "torch-2.11/snapshots/oom.pickle"]).contains(note));
}
