//! Snapshots in the formats of other tools.

#![forbid(unsafe_code)]

mod csv;
mod folded;
mod json;
mod perfetto;
mod pprof;
mod protobuf;
mod text;

use std::io;

use crate::{
    history::active_blocks,
    snapshot::{Snapshot, StackIndex},
};

/// A format that another tool reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Format {
    /// A line for each event, under a heading: with the call that requested the memory, as
    /// [`ShownFrames::identifying`](crate::analysis::ShownFrames::identifying) has it first, and the number of
    /// the stack.
    Csv,
    /// As [`Format::Csv`], with all frames of each event's stack. Of a million events that are gigabytes.
    CsvStacks,
    /// `outermost;…;innermost bytes` for what is in use at the end, as flame graph tools read it.
    Folded,
    /// Chrome's trace events as JSON, which ui.perfetto.dev and chrome://tracing open: active and
    /// reserved bytes as counters, blocks and scopes as slices.
    Perfetto,
    /// PyTorch's dictionaries, as the current viewer loads them: what `serde_json` writes of a [`Snapshot`]
    /// (save the form of exponents), in an eighth of the time.
    Json,
    /// A protobuf profile, not compressed, for `go tool pprof`: what was allocated and what is in use.
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
/// The first error of the sink. [`InvalidData`](io::ErrorKind::InvalidData) if something that is no part of the
/// format cannot be in JSON: a dictionary whose keys are no texts or numbers.
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

/// Every block in use at the end: its stack and its requested bytes.
fn in_use(snapshot: &Snapshot) -> impl Iterator<Item = (Option<StackIndex>, u64)> {
    let blocks = snapshot.segments.iter().flat_map(active_blocks);
    blocks.map(|block| (block.block.stack, block.block.requested_size))
}
