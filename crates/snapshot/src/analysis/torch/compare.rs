//! Finds the segments of two snapshots that only one of them has (`docs/snapshot-format.md` 4.5).

use serde::Serialize;

use super::folded::{FoldedStack, Folder};
use crate::{
    model::{Segment, Snapshot},
    words::SeededSet,
};

/// The segments that only one of two snapshots has. Two segments are the same if they have the same
/// device, address and size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// The indices of the segments that only the first snapshot has, in ascending order.
    pub only_before: Vec<usize>,
    /// The indices of the segments that only the second snapshot has, in ascending order.
    pub only_after: Vec<usize>,
}

/// Compares the segments of two snapshots, on every device.
#[must_use]
pub fn compare(before: &Snapshot, after: &Snapshot) -> Comparison {
    Comparison { only_before: missing(before, after), only_after: missing(after, before) }
}

fn missing(of: &Snapshot, from: &Snapshot) -> Vec<usize> {
    let key = |segment: &Segment| (segment.device, segment.address, segment.total_size);
    let known: SeededSet<_> = from.segments.iter().map(key).collect();
    (0..of.segments.len()).filter(|index| !known.contains(&key(&of.segments[*index]))).collect()
}

impl Comparison {
    /// Calls `take` with each folded stack of the segments that differ, and its bytes.
    ///
    /// # Errors
    /// The first error of `take`, which ends the calls.
    pub fn folded<E>(
        &self,
        before: &Snapshot,
        after: &Snapshot,
        mut take: impl FnMut(&FoldedStack<'_>, i128) -> Result<(), E>,
    ) -> Result<(), E> {
        let sides = [("only_before", before, &self.only_before), ("only_after", after, &self.only_after)];
        for (side, snapshot, segments) in sides {
            let folder = Folder::new(snapshot);
            for segment in segments.iter().map(|index| &snapshot.segments[*index]) {
                let prefix = format!("{side};stream_{};seg_{}", segment.stream, segment.address.0);
                folder.segment(segment, &prefix, &mut take)?;
            }
        }
        Ok(())
    }
}
