//! Times recording: an event without a stack, with one, and with recording off; and the export.
//!
//! ```text
//! cargo bench --bench record              a table
//! cargo bench --bench record -- --json    one JSON object a line
//! cargo bench --bench record -- export    one part: events, stacks, pairs or export
//! RUSTFLAGS="-C force-frame-pointers=yes" cargo bench --bench record --target-dir target/frame-pointers
//! ```
//!
//! Each figure is the median of 31 batches (of seven for cases that take milliseconds).
//!
//! | case | what is timed |
//! |---|---|
//! | `off` | an event while recording is off |
//! | `none` | an event without a stack; the case `clock` is reading the time alone |
//! | `ring`, `ring_in_file` | the same in a ring that drops its oldest events: in memory, and in the file of a tape; `ring_in_file_alone` in a program of one thread |
//! | `none_by_time` | the same from a source without a lock, whose events are merged by time |
//! | `two_threads_none` | `none_by_time` on two threads at once, on one track; the slower thread's figure |
//! | `stack20_same` | an event and its stack, 20 frames deep, the same stack every time |
//! | `stack20_inner4` | the same with the innermost four frames different every time |
//! | `stack20_other` | the same with all frames different every time |
//! | `pair_off`, `pair_none`, `pair_native` | an allocation and its free, 20 frames deep: recording off, without stacks, with stacks |
//! | `export_1m` | writing a million events with 2,000 stacks, already symbolised, to a file; `export_1m_collect` and `export_1m_write` do it through a `Snapshot` |
//! | `symbolise_2000` | the names of 2,000 addresses that were not symbolised before |
//!
//! Other libraries are measured for the stack alone: `backtrace::trace` returns
//! addresses, `Backtrace::new_unresolved` keeps them, framehop unwinds with
//! cached rules. `frame_pointers` tells whether this build keeps frame pointers.

mod chains;
mod events;
mod export;
mod pairs;
mod peers;
mod stacks;
mod report;

/// A part of the bench: measures its cases and reports the results.
type Measure = fn(&report::Reporter);

fn main() {
    let reporter = report::Reporter::new();
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
            measure(&reporter);
        }
    }
}
