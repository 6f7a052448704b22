//! Writes snapshots in the formats of other tools.
//!
//! CSV, JSON, pprof, Perfetto and folded stacks.

#![forbid(unsafe_code)]

mod csv;
mod folded;
mod heap_part;
mod heap_profile;
mod in_use;
mod json;
mod perfetto;
mod pprof;
mod protobuf;
mod text;

use std::io;

use crate::model::Snapshot;

pub use heap_part::HeapPart;
pub use heap_profile::heap_profile;

/// A format that another tool reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Format {
    /// A line for each event, under a heading, with the call that requested the memory (the first of
    /// [`ShownFrames::identifying`](crate::analysis::ShownFrames::identifying)) and the number of the stack.
    Csv,
    /// [`Format::Csv`] with all frames of each event's stack. A million events make gigabytes.
    CsvStacks,
    /// `outermost;…;innermost bytes` for the blocks in use at the end, for flame graph tools.
    Folded,
    /// Chrome's trace events as JSON, which ui.perfetto.dev and chrome://tracing open: active and
    /// reserved bytes as counters, blocks and scopes as slices.
    Perfetto,
    /// PyTorch's dictionaries, which the current viewer loads. The text is that of `serde_json` for a
    /// [`Snapshot`], except for the form of exponents; it takes an eighth of the time.
    Json,
    /// A protobuf profile, not compressed, for `go tool pprof`: allocated memory and memory in use.
    Pprof,
}

/// Writes a snapshot in a format.
///
/// ```
/// use memreel::{export::{Format, convert}, snapshot::Snapshot};
/// let mut csv = Vec::new();
/// convert(&Snapshot::default(), Format::Csv, &mut csv)?;
/// assert!(csv.starts_with(b"device,event,time_us,action,"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The first error of the sink. [`InvalidData`](io::ErrorKind::InvalidData) if JSON cannot represent the
/// value of an unknown key: a dictionary whose keys are neither texts nor numbers.
pub fn convert(snapshot: &Snapshot, format: Format, sink: &mut impl io::Write) -> io::Result<()> {
    match format {
        Format::Csv => csv::write(snapshot, false, sink),
        Format::CsvStacks => csv::write(snapshot, true, sink),
        Format::Folded => folded::write(snapshot, sink),
        Format::Json => json::write(snapshot, sink),
        Format::Perfetto => perfetto::write(snapshot, sink),
        Format::Pprof => pprof::write(snapshot, sink),
    }
}
