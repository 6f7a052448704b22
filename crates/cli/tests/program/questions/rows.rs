//! What the rows and the headings of a list show.

#![forbid(unsafe_code)]

use crate::support::answer;

/// Calls in files of the program's own are shown before those of packages.
#[test]
fn the_programs_own_calls_are_shown() {
    let file = "torch-2.11/ranks/rank1.pickle";
    let text = answer(&["top", file]);
    assert!(
        text.contains("← forward (fsdp_ranks.py:13)") && text.contains("← forward (fsdp_ranks.py:18)"),
        "{text}"
    );
    let paths = answer(&["top", "--paths", file]);
    assert!(paths.contains("/fsdp_ranks.py:13)") && !text.contains("/fsdp_ranks.py"), "{paths}");
}

#[test]
fn memory_that_waits_for_a_stream_is_in_the_headings() {
    let file = "torch-2.11/snapshots/pending_free.pickle";
    for arguments in [&["top", file][..], &[file]] {
        let text = answer(arguments);
        assert!(text.contains(" freed and waiting for a stream"), "{text}");
    }
    let whole = answer(&["top", "torch-2.11/snapshots/oom.pickle"]);
    assert!(!whole.contains("waiting"), "{whole}");
}

#[test]
fn blocks_without_a_stack_are_explained_beside_others() {
    let note = "note: the backward pass runs in threads without Python; to see their calls, record with";
    assert!(answer(&["top", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]).contains(note));
    assert!(!answer(&["top", "torch-2.11/snapshots/oom.pickle"]).contains(note));
}
