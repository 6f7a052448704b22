//! What recording costs: an event without a stack, with one, off; and the export.
//!
//! ```text
//! cargo bench --bench record              a table
//! cargo bench --bench record -- --json    one JSON object a line
//! cargo bench --bench record -- export    a part of it: events, stacks, pairs or export
//! RUSTFLAGS="-C force-frame-pointers=yes" cargo bench --bench record --target-dir target/frame-pointers
//! ```
//!
//! Each figure is the median of 31 batches (of seven for what takes milliseconds).
//!
//! | case | what is timed |
//! |---|---|
//! | `off` | an event while recording is off |
//! | `none` | an event without a stack; `clock` beside it is the reading of the time alone |
//! | `none_by_time` | the same for a source without a lock, whose events are merged by time |
//! | `two_threads_none` | that on two threads at once, on one track: the slower thread's own figure |
//! | `stack20_same` | an event and its stack, 20 frames deeper than this program, always the same |
//! | `stack20_inner4` | the innermost four frames others each time |
//! | `stack20_other` | all of them others each time |
//! | `pair_off`, `pair_none`, `pair_native` | an allocation and its free, 20 frames deep, recording off, without stacks, with |
//! | `export_1m` | a million events with 2,000 stacks, named before, into a file; beside it the same by way of a `Snapshot`, in two parts |
//! | `symbolise_2000` | the names of 2,000 addresses that were never named |
//!
//! What others take stands beside it, for the stack alone: `backtrace::trace`
//! gives addresses, `Backtrace::new_unresolved` keeps them, framehop unwinds by
//! cached rules. `frame_pointers` says whether this build's code keeps them.

mod chains;
mod events;
mod export;
mod pairs;
mod peers;
mod stacks;
mod tell;

/// Measures and tells.
type Measure = fn(&tell::Teller);

fn main() {
    let teller = tell::Teller::new();
    let parts: [(&str, Measure); 4] = [
        ("events", events::measure),
        ("stacks", stacks::measure),
        ("pairs", pairs::measure),
        ("export", export::measure),
    ];
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for (name, measure) in parts {
        if wanted.is_empty() || wanted.iter().any(|part| part == name) {
            measure(&teller);
        }
    }
}
