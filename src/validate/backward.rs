//! The trace undone from its end: rules 25 to 28.
//!
//! As the viewer's state history does, this starts from the final segments and
//! blocks and undoes one entry after the other. The sizes of blocks that died
//! before the end are known only as requested, so that overlaps within their
//! rounding stay unseen, and rule 28 can then only say that a figure is too low.

use super::{
    forward::{Change, Forward, Life},
    memory::DeviceMemory,
    place::EntryPlace,
};
use crate::{
    event::{Action, Address},
    finding::{Report, Rule},
    history::{
        DeviceRange, Joining, Live, Obstacle, Origin, Places, Ranges, insert_free, undo_segment_event,
    },
    snapshot::TraceEntry,
};

/// A block in use at one point of the replay.
#[derive(Clone, Copy, Debug)]
struct Held {
    end: Address,
    /// Its size with rounding; requested bytes if that is not known.
    size: u64,
    is_rounded: bool,
}

/// Undoes a trace; whether some block was in no segment at its time.
pub(super) fn check(forward: &Forward<'_>, memory: &DeviceMemory, report: &mut Report) -> bool {
    // Lives are at the addresses that the forward replay met.
    let addresses = forward.spots.keys().copied();
    let places = Places::new(addresses.chain(memory.active.iter().map(|block| block.address)));
    let mut replay = Replay::new(forward, &places, memory, report);
    for (index, change) in forward.changes.iter().enumerate().rev() {
        replay.undo(index, *change);
    }
    replay.is_outside
}

struct Replay<'a> {
    forward: &'a Forward<'a>,
    report: &'a mut Report,
    ranges: Ranges<DeviceRange>,
    held: Live<'a, Held>,
    held_bytes: u128,
    n_unrounded: u64,
    is_outside: bool,
}

impl<'a> Replay<'a> {
    fn new(
        forward: &'a Forward<'a>,
        places: &'a Places,
        memory: &DeviceMemory,
        report: &'a mut Report,
    ) -> Replay<'a> {
        let mut replay = Replay {
            forward,
            report,
            ranges: Ranges::default(),
            held: Live::new(places),
            held_bytes: 0,
            n_unrounded: 0,
            is_outside: false,
        };
        for (number, range) in memory.ranges.iter().enumerate() {
            let value = DeviceRange {
                stream: range.stream,
                is_expandable: range.is_expandable,
                origin: Origin::Segment(number),
            };
            let bytes = range.end.saturating_sub(range.start);
            // Overlaps of the final segments are rule 11's.
            insert_free(&mut replay.ranges, range.start, bytes, value, Joining::Joined);
        }
        for block in &memory.active {
            let end = block.address.saturating_add(block.size);
            replay.hold(block.address, Held { end, size: block.size, is_rounded: true });
        }
        replay
    }

    fn undo(&mut self, index: usize, change: Change) {
        let entry = &self.forward.entries[index];
        let at = self.forward.place.entry(index);
        match entry.action {
            Some(Action::Alloc | Action::FreeCompleted) => {
                if let Some(life) = change.born {
                    self.release(self.forward.lives[life as usize].address);
                }
                if let Some(life) = change.died {
                    self.revive(self.forward.lives[life as usize], at);
                }
            }
            Some(Action::SegmentAlloc | Action::SegmentFree | Action::SegmentMap | Action::SegmentUnmap) => {
                self.undo_segment(index, entry, at);
            }
            Some(Action::Snapshot) => self.snapshot(entry, at),
            _ => {}
        }
    }

    fn hold(&mut self, address: Address, held: Held) {
        if let Some(old) = self.held.insert(address, held) {
            self.uncount(old);
        }
        self.held_bytes += u128::from(held.size);
        self.n_unrounded += u64::from(!held.is_rounded);
    }

    fn release(&mut self, address: Address) {
        if let Some(held) = self.held.remove(address) {
            self.uncount(held);
        }
    }

    fn uncount(&mut self, held: Held) {
        self.held_bytes -= u128::from(held.size);
        self.n_unrounded -= u64::from(!held.is_rounded);
    }

    /// A block that ended here was there before: rules 25 and 27.
    fn revive(&mut self, life: Life, at: EntryPlace) {
        let end = life.address.saturating_add(life.size);
        let told = life.born.map_or(at, |born| self.forward.place.entry(born));
        match self.held_in(life.address, end) {
            // Rule 23 reports that the trace freed a block that is active at the end.
            Some((other, _)) if other == life.address => return,
            Some((other, _)) => {
                let address = life.address;
                let what =
                    format_args!("{address:#x} overlaps the block at {other:#x}, live at the same time");
                self.report.error(Rule::BlockOverlap, told, what);
            }
            None => {}
        }
        self.hold(life.address, Held { end, size: life.size, is_rounded: false });
        self.check_inside(life, end, told);
    }

    fn check_inside(&mut self, life: Life, end: Address, at: EntryPlace) {
        match self.ranges.covering(life.address, end) {
            None => {
                self.is_outside = true;
                let address = life.address;
                let what = "is in no segment at that time; the viewer's state history throws";
                self.report.error(Rule::BlockInSegment, at, format_args!("the block at {address:#x} {what}"));
            }
            Some((_, span)) if span.value.stream != life.stream => {
                let (segment, block) = (span.value.stream, life.stream);
                let what = format_args!("on stream {block}, in a segment of stream {segment}");
                self.report.warning(Rule::BlockInSegment, at, what);
            }
            Some(_) => {}
        }
    }

    /// The last block that shares a byte with a range.
    fn held_in(&self, start: Address, end: Address) -> Option<(Address, Held)> {
        let (address, held) = self.held.last_below(start, end)?;
        (held.end > start && end > start).then_some((address, *held))
    }

    /// Before the segment was there nothing can have been in it: rule 27.
    fn check_empty(&mut self, start: Address, end: Address, at: EntryPlace) {
        if let Some((address, _)) = self.held_in(start, end) {
            self.is_outside = true;
            let what = "is live before this segment is there; the viewer's state history throws";
            self.report.error(Rule::BlockInSegment, at, format_args!("the block at {address:#x} {what}"));
        }
    }

    fn undo_segment(&mut self, index: usize, entry: &TraceEntry, at: EntryPlace) {
        let (start, end) = (entry.address, entry.address.saturating_add(entry.size));
        let given_back = DeviceRange {
            stream: entry.stream,
            is_expandable: entry.action == Some(Action::SegmentUnmap),
            origin: Origin::Entry(index),
        };
        match undo_segment_event(&mut self.ranges, entry, given_back, Joining::Joined) {
            Ok(()) if matches!(entry.action, Some(Action::SegmentAlloc | Action::SegmentMap)) => {
                self.check_empty(start, end, at);
            }
            Ok(()) => {}
            Err(obstacle) => self.report_obstacle(obstacle, entry, at),
        }
    }

    /// Rule 26: the later entries rule this one out.
    fn report_obstacle(&mut self, obstacle: Obstacle, entry: &TraceEntry, at: EntryPlace) {
        let (start, end) = (entry.address, entry.address.saturating_add(entry.size));
        let what = match obstacle {
            Obstacle::SegmentMissing => format!(
                "a segment at {start:#x}, but there is none later and no segment_free: the viewer removes \
                 another instead"
            ),
            Obstacle::SegmentResized { end: later } => {
                // The segment was not there before, whatever its size.
                self.ranges.remove(start);
                format!("a segment of {} bytes at {start:#x}, but later it has {}", entry.size, later - start)
            }
            Obstacle::RangeMissing => format!(
                "the range {start:#x} to {end:#x} is not inside one segment later, and no segment_unmap took \
                 it: the viewer throws"
            ),
            Obstacle::Overlapped { by } => {
                format!("the range {start:#x} to {end:#x} overlaps the segment at {by:#x}")
            }
            Obstacle::Empty => return,
        };
        self.report.error(Rule::SegmentEvents, at, what);
    }

    /// Rule 28's warning.
    fn snapshot(&mut self, entry: &TraceEntry, at: EntryPlace) {
        let (said, known) = (u128::from(entry.size), self.held_bytes);
        let is_wrong = if self.n_unrounded == 0 { said != known } else { said < known };
        if is_wrong {
            let least = if self.n_unrounded == 0 { "" } else { "at least " };
            let what = format_args!("says {said} active bytes, the replay has {least}{known} here");
            self.report.warning(Rule::SnapshotEntries, at, what);
        }
    }
}
