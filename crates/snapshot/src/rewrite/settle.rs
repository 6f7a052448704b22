//! Repairs a trace until neither walk over it finds anything to repair.
//!
//! The walk forward (`lifecycle`) and the walk backward (`rewind`) each find what the other cannot. Where
//! entries and segments contradict each other in both directions, each would undo the other's repairs for
//! ever. Then the entries of those addresses are dropped and the trace is repaired from its beginning
//! again; a trace without events agrees with any segments, so this ends. Its result is one that both
//! walks leave alone, which makes `fix` a fixed point.

use std::borrow::Cow;

use super::{
    change::Changes, edits::Edits, entry_template::EntryTemplate, lifecycle, order, rewind,
    trace_end::TraceEnd,
};
use crate::{
    history::{Places, disorder},
    model::{Field, Shapes, TraceEntry},
    words::{Action, Address},
};

/// A sound trace takes one round, a broken one two; only random entries take more.
const MAX_ROUNDS: usize = 8;

const CONTESTED: &str = "dropped events that contradict other events and the segments";

/// The entries that are repaired; the rest is dropped.
#[derive(Clone, Copy, Debug)]
enum Attempt {
    All,
    Uncontested,
    NoEvents,
}

/// The result of repairing one trace.
#[derive(Debug)]
pub(super) struct Settled {
    /// The repaired entries; `None` if there was nothing to repair.
    pub(super) trace: Option<Vec<TraceEntry>>,
    pub(super) changes: Changes,
    /// How many entries were moved; they are among the changes.
    pub(super) n_moved: usize,
}

/// Repairs a trace whose entries are complete, up to the state of the segments.
pub(super) fn settle(trace: &[TraceEntry], end: &TraceEnd<'_>, shapes: &mut Shapes, place: &str) -> Settled {
    let mut contested = Contested::default();
    for attempt in [Attempt::All, Attempt::Uncontested, Attempt::NoEvents] {
        let mut changes = Changes::default();
        let given = match attempt {
            Attempt::All => Cow::Borrowed(trace),
            Attempt::Uncontested => Cow::Owned(contested.others(trace)),
            Attempt::NoEvents => trace.iter().filter(|entry| !is_event(entry)).copied().collect(),
        };
        changes.add(place, CONTESTED, trace.len() - given.len());
        let mut rounds = Rounds { trace: given, end, shapes: &mut *shapes, place, changes, n_moved: 0 };
        if rounds.all(&mut contested) {
            let Rounds { trace, changes, n_moved, .. } = rounds;
            let trace = match trace {
                Cow::Borrowed(_) => None,
                Cow::Owned(trace) => Some(trace),
            };
            return Settled { trace, changes, n_moved };
        }
    }
    unreachable!("a trace without events needs no event")
}

/// Whether an entry is about a block or a segment.
fn is_event(entry: &TraceEntry) -> bool {
    matches!(
        entry.action,
        Some(
            Action::Alloc
                | Action::FreeRequested
                | Action::FreeCompleted
                | Action::SegmentAlloc
                | Action::SegmentFree
                | Action::SegmentMap
                | Action::SegmentUnmap
        )
    )
}

/// The rounds over one trace.
struct Rounds<'a, 'b> {
    trace: Cow<'a, [TraceEntry]>,
    end: &'a TraceEnd<'b>,
    shapes: &'a mut Shapes,
    place: &'a str,
    changes: Changes,
    n_moved: usize,
}

impl Rounds<'_, '_> {
    /// Repairs until nothing is left. Returns whether that is so, and notes what the last rounds repaired if not.
    fn all(&mut self, contested: &mut Contested) -> bool {
        // Every edit is at an address of the trace or of the segments.
        let of_blocks = self.end.state.blocks().iter().map(|block| block.block.address);
        let places = Places::new(self.trace.iter().map(|entry| entry.address).chain(of_blocks));
        for round in 0..MAX_ROUNDS {
            // Rounds that undo each other come in pairs.
            let mut notes = (round + 2 >= MAX_ROUNDS).then_some(&mut *contested);
            // Entries that contradict each other in both orders may agree in one once others are added.
            let mut is_changed = self.sort();
            for walk in [lifecycle::complete, rewind::check] {
                let edits = walk(&self.trace, &places, self.end, &mut EntryTemplate::new(self.shapes));
                is_changed |= self.apply(edits, notes.as_deref_mut());
            }
            if !is_changed {
                return true;
            }
        }
        false
    }

    fn sort(&mut self) -> bool {
        let has_time = |entry: &TraceEntry| self.shapes.get(entry.shape).has(Field::TimeUs);
        if disorder(&self.trace, true).is_none() || !self.trace.iter().all(has_time) {
            return false;
        }
        let Some((sorted, n_moved)) = order::sorted(&self.trace, self.end) else { return false };
        self.changes.add(self.place, order::SORTED, n_moved);
        self.n_moved += n_moved;
        self.trace = Cow::Owned(sorted);
        true
    }

    fn apply(&mut self, edits: Edits, notes: Option<&mut Contested>) -> bool {
        if edits.is_empty() {
            return false;
        }
        if let Some(contested) = notes {
            contested.add(edits.ranges(&self.trace));
        }
        edits.apply(self.trace.to_mut(), self.place, &mut self.changes);
        true
    }
}

/// Ranges of addresses that rounds repair again and again.
#[derive(Debug, Default)]
struct Contested(Vec<(Address, Address)>);

impl Contested {
    /// Adds ranges, each with its first address and the first one past it.
    fn add(&mut self, ranges: impl Iterator<Item = (Address, Address)>) {
        self.0.extend(ranges);
        self.0.sort_unstable();
        self.0.dedup_by(|next, kept| {
            let joins = next.0 <= kept.1;
            kept.1 = if joins { kept.1.max(next.1) } else { kept.1 };
            joins
        });
    }

    /// The entries outside these ranges.
    fn others(&self, trace: &[TraceEntry]) -> Vec<TraceEntry> {
        trace.iter().filter(|entry| !is_event(entry) || !self.overlaps(entry)).copied().collect()
    }

    fn overlaps(&self, entry: &TraceEntry) -> bool {
        let (start, end) = entry.span();
        let first = self.0.partition_point(|(_, until)| *until <= start);
        self.0.get(first).is_some_and(|(from, _)| *from < end)
    }
}
