//! The trace undone from its end: rules 25 to 28.
//!
//! Like the viewer's state history, this starts from the final segments and blocks and undoes one entry
//! after the other. Of blocks that ended earlier only the requested size is known. Overlaps within
//! their rounding are therefore not found, and rule 28 can then only report a figure that is too low.

use super::{
    forward::{Change, Life, WalkedTrace},
    place::EntryPlace,
};
use crate::{
    history::{
        DeviceRange, Extent, FinalBlock, FinalState, Joining, Live, Obstacle, Places, Ranges, final_ranges,
        undo_segment_event,
    },
    model::TraceEntry,
    words::{Action, Address, Report, Rule},
};

/// A block in use at one point of the walk.
#[derive(Clone, Copy, Debug)]
struct HeldBlock {
    end: Address,
    /// Its size with rounding; requested bytes if that is not known.
    size: u64,
    is_rounded: bool,
}

impl Extent for HeldBlock {
    fn end(&self) -> Address {
        self.end
    }
}

/// Undoes a trace, and returns whether some block was outside all segments at its time.
pub(super) fn check(trace: &WalkedTrace<'_>, end: &FinalState<'_>, report: &mut Report) -> bool {
    let of_trace = trace.walk.spots().map(|(address, _)| address);
    let places = Places::new(of_trace.chain(end.blocks().iter().map(|found| found.block.address)));
    let mut replay = Replay {
        trace,
        report,
        // It leaves out a segment that overlaps another, which rule 11 reports.
        ranges: final_ranges(end.segments(), Joining::Joined),
        held: Live::new(&places),
        held_bytes: 0,
        n_unrounded: 0,
        is_outside: false,
    };
    for FinalBlock { block, .. } in end.blocks() {
        let end = block.address.saturating_add(block.size);
        replay.hold(block.address, HeldBlock { end, size: block.size, is_rounded: true });
    }
    for (index, change) in trace.changes.iter().enumerate().rev() {
        replay.undo(index, *change);
    }
    replay.is_outside
}

struct Replay<'a> {
    trace: &'a WalkedTrace<'a>,
    report: &'a mut Report,
    ranges: Ranges<DeviceRange>,
    held: Live<'a, HeldBlock>,
    held_bytes: u128,
    n_unrounded: u64,
    is_outside: bool,
}

impl Replay<'_> {
    fn undo(&mut self, index: usize, change: Change) {
        let entry = &self.trace.entries[index];
        let at = self.trace.place.entry(index);
        match entry.action {
            Some(Action::Alloc | Action::FreeCompleted) => {
                if let Some(life) = change.born {
                    self.release(self.trace.lives[life as usize].address);
                }
                if let Some(life) = change.died {
                    self.revive(self.trace.lives[life as usize], at);
                }
            }
            Some(Action::SegmentAlloc | Action::SegmentFree | Action::SegmentMap | Action::SegmentUnmap) => {
                self.undo_segment(index, entry, at);
            }
            Some(Action::Snapshot) => self.snapshot(entry, at),
            _ => {}
        }
    }

    fn hold(&mut self, address: Address, held: HeldBlock) {
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

    fn uncount(&mut self, held: HeldBlock) {
        self.held_bytes -= u128::from(held.size);
        self.n_unrounded -= u64::from(!held.is_rounded);
    }

    /// Rules 25 and 27: a block that ended here was there before.
    fn revive(&mut self, life: Life, at: EntryPlace) {
        let end = life.address.saturating_add(life.size);
        let place = life.born.map_or(at, |born| self.trace.place.entry(born));
        match self.held.overlapping(life.address, end) {
            // Rule 23 reports that the trace freed a block that is active at the end.
            Some((other, _)) if other == life.address => return,
            Some((other, _)) => {
                let address = life.address;
                let what = "which is in use at the same time";
                let what = format_args!("the block at {address:#x} overlaps the block at {other:#x}, {what}");
                self.report.error(Rule::BlockOverlap, place, what);
            }
            None => {}
        }
        self.hold(life.address, HeldBlock { end, size: life.size, is_rounded: false });
        self.check_inside(life, end, place);
    }

    fn check_inside(&mut self, life: Life, end: Address, at: EntryPlace) {
        match self.ranges.covering(life.address, end) {
            None => {
                self.is_outside = true;
                let address = life.address;
                let what =
                    "is not in any segment at that time, so the viewer's state history throws an error";
                self.report.error(Rule::BlockInSegment, at, format_args!("the block at {address:#x} {what}"));
            }
            Some((_, span)) if span.value.stream != life.stream => {
                let (segment, block) = (span.value.stream, life.stream);
                let what =
                    format_args!("the block is on stream {block}, but its segment is on stream {segment}");
                self.report.warning(Rule::BlockInSegment, at, what);
            }
            Some(_) => {}
        }
    }

    /// Rule 27: nothing can have been in a segment before it was there.
    fn check_empty(&mut self, start: Address, end: Address, index: usize, at: EntryPlace) {
        let Some((address, _)) = self.held.overlapping(start, end) else { return };
        self.is_outside = true;
        let what = format_args!("the block at {address:#x} is in use before this segment exists");
        // Viewers undo what comes after the selected event, so never the first.
        if index == 0 {
            self.report.warning(Rule::BlockInSegment, at, format_args!("{what}; its alloc event is missing"));
        } else {
            let what = format_args!("{what}, so the viewer's state history throws an error");
            self.report.error(Rule::BlockInSegment, at, what);
        }
    }

    fn undo_segment(&mut self, index: usize, entry: &TraceEntry, at: EntryPlace) {
        let (start, end) = (entry.address, entry.end());
        let given_back = DeviceRange::from_entry(entry, index);
        match undo_segment_event(&mut self.ranges, entry, given_back, Joining::Joined) {
            Ok(()) if matches!(entry.action, Some(Action::SegmentAlloc | Action::SegmentMap)) => {
                self.check_empty(start, end, index, at);
            }
            Ok(()) => {}
            Err(obstacle) => self.report_obstacle(obstacle, entry, at),
        }
    }

    /// Rule 26: the later entries contradict this one.
    fn report_obstacle(&mut self, obstacle: Obstacle, entry: &TraceEntry, at: EntryPlace) {
        let (start, end) = (entry.address, entry.end());
        let what = match obstacle {
            Obstacle::SegmentMissing => format!(
                "this event adds a segment at {start:#x}, but later there is neither a segment nor a segment_free \
                 there, so the viewer removes another segment instead"
            ),
            Obstacle::SegmentResized { end: later } => {
                // The segment was not there before, whatever its size.
                self.ranges.remove(start);
                let (now, later) = (entry.size, later - start);
                format!("the segment at {start:#x} has {now} bytes here, but {later} bytes later")
            }
            Obstacle::RangeMissing => format!(
                "the range {start:#x} to {end:#x} is not inside one segment later, and no segment_unmap removes \
                 it, so the viewer throws an error"
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
            let what =
                format_args!("`size` is {said}, but in the replay, {least}{known} bytes are in use here");
            self.report.warning(Rule::SnapshotEntries, at, what);
        }
    }
}
