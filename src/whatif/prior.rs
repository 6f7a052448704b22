//! Blocks that were live before the history began, and how sure an answer is with them.

use std::fmt;

use super::{calls::Read, recorded_run::RecordedRun, requests::SlotIndex};
use crate::{
    event::StreamId,
    snapshot::{Snapshot, StackIndex, Value},
};

/// A block that was there before the first entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Prior {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) stream: StreamId,
    pub(super) pool: u16,
    pub(super) slot: SlotIndex,
    /// Of the live block, where the snapshot still has it.
    pub(super) stack: Option<StackIndex>,
}

/// How far an answer can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Confidence {
    /// The history is whole.
    Sure,
    /// Less than a tenth of what was reserved at the peak was there before.
    High,
    /// Less than half of it was.
    Fair,
    /// Half of it or more was: the order of the missing requests decides.
    Low,
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Confidence::Sure => "sure",
            Confidence::High => "high",
            Confidence::Fair => "fair",
            Confidence::Low => "low",
        })
    }
}

/// How sure an answer is, and why it is not surer.
pub(super) fn judge(snapshot: &Snapshot, read: &Read, recorded: &RecordedRun) -> (Confidence, Vec<String>) {
    let overflowed = snapshot.allocator_settings().and_then(|all| all.get("trace_alloc_overflowed"));
    let has_lost = matches!(overflowed, Some(Value::Bool(true)));
    let blocks_bytes: u64 = read.priors.iter().fold(0, |sum, prior| sum.saturating_add(prior.bytes));
    if !has_lost && read.priors.is_empty() && recorded.start_bytes == 0 {
        return (Confidence::Sure, Vec::new());
    }
    let before_bytes = blocks_bytes.max(recorded.start_bytes);
    let confidence = match (before_bytes, recorded.reserved_peak_bytes) {
        (before, peak) if before.saturating_mul(10) < peak => Confidence::High,
        (before, peak) if before.saturating_mul(2) < peak => Confidence::Fair,
        _ => Confidence::Low,
    };
    let lost = if has_lost { "its ring lost the oldest entries, and " } else { "" };
    let n = read.priors.len();
    let what = format!(
        "the history is incomplete: {lost}{n} blocks of {blocks_bytes} bytes were live before it began, in {} \
         reserved bytes; they are allocated first, by address, which cannot repeat the gaps between them. \
         Confidence: {confidence}",
        recorded.start_bytes
    );
    (confidence, vec![what])
}
