//! The allocator's state at any moment of one device's history, reconstructed from a snapshot.
//!
//! ```text
//!   before ──entry 0── 1 ──entry 1── 2 ── … ── n: the blocks and segments of the file
//!     0
//! ```
//!
//! Everything is linear in the trace, but for sorting: the blocks' lives are
//! found once, and each question then filters them.

use std::collections::BTreeSet;

use super::{
    lives::{Lives, NONE},
    segments::{self, SegmentRange},
};
use crate::{
    event::{Action, DeviceId},
    history::{Life, Moment, Trust, first_disorder, reserved_at_start, segments_of},
    snapshot::{Segment, Snapshot, TraceEntry},
};

/// Bytes at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Totals {
    /// Asked for, in blocks that the program holds.
    pub allocated_bytes: u64,
    /// The same, and in blocks whose free waits for a stream: what the viewer's timeline draws.
    pub active_bytes: u64,
    /// Of blocks in use, with the least that rounding adds ([`Life::bytes`]).
    pub rounded_bytes: u64,
    /// Held from the device.
    pub reserved_bytes: u64,
    /// Blocks in use.
    pub n_blocks: usize,
}

impl Totals {
    /// Held from the device and in no block: cached, or wasted.
    #[must_use]
    pub fn unused_bytes(&self) -> u64 {
        self.reserved_bytes.saturating_sub(self.rounded_bytes)
    }

    /// What happens to a block at a moment.
    fn change(&mut self, life: &Life, now: Moment) {
        if life.from == now {
            self.add(life);
            self.allocate(life);
        }
        if life.requested == now {
            self.request(life);
        }
        if life.until == now {
            self.end(life);
        }
    }

    fn add(&mut self, life: &Life) {
        self.active_bytes = self.active_bytes.saturating_add(life.requested_bytes);
        self.rounded_bytes = self.rounded_bytes.saturating_add(life.bytes);
        self.n_blocks += 1;
    }

    fn allocate(&mut self, life: &Life) {
        self.allocated_bytes = self.allocated_bytes.saturating_add(life.requested_bytes);
    }

    fn request(&mut self, life: &Life) {
        self.allocated_bytes = self.allocated_bytes.saturating_sub(life.requested_bytes);
    }

    fn end(&mut self, life: &Life) {
        self.active_bytes = self.active_bytes.saturating_sub(life.requested_bytes);
        self.rounded_bytes = self.rounded_bytes.saturating_sub(life.bytes);
        self.n_blocks = self.n_blocks.saturating_sub(1);
    }
}

/// The history of one device's memory, reconstructed from a snapshot.
///
/// ```
/// # use memreel::{DeviceId, Reel, recorder::History};
/// use memreel::analysis::DeviceHistory;
///
/// let reel = Reel::builder().history(History::all()).build()?;
/// drop((reel.alloc(1000)?, reel.alloc(3000)?));
/// let snapshot = reel.snapshot();
/// let history = DeviceHistory::new(&snapshot, DeviceId(0));
/// let (moment, totals) = history.peak();
/// assert_eq!((totals.active_bytes, history.lives_at(moment).count()), (4000, 2));
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Debug)]
pub struct DeviceHistory<'a> {
    snapshot: &'a Snapshot,
    device: DeviceId,
    entries: &'a [TraceEntry],
    segments: Vec<&'a Segment>,
    lives: Lives,
    start: Totals,
    trust: Trust,
}

/// The devices that have events or segments, by ordinal.
#[must_use]
pub fn devices(snapshot: &Snapshot) -> Vec<DeviceId> {
    let of_segments = snapshot.segments.iter().filter_map(|segment| u16::try_from(segment.device.0).ok());
    let traces = snapshot.device_traces.iter().zip(0..=u16::MAX);
    let of_traces = traces.filter(|(trace, _)| !trace.is_empty()).map(|(_, device)| device);
    let found: BTreeSet<u16> = of_segments.chain(of_traces).collect();
    found.into_iter().map(DeviceId::from).collect()
}

impl<'a> DeviceHistory<'a> {
    /// Reads the trace and the segments of a device; both may be empty.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot, device: DeviceId) -> DeviceHistory<'a> {
        let entries = snapshot.trace(device);
        let segments: Vec<&Segment> = segments_of(snapshot, device).map(|(_, segment)| segment).collect();
        let lives = Lives::new(entries, &segments);
        let reserved_bytes = reserved_at_start(entries, segments.iter().copied());
        let mut start = Totals { reserved_bytes, ..Totals::default() };
        for life in lives.all.iter().filter(|life| life.is_active_at(Moment::START)) {
            start.add(life);
            if life.is_allocated_at(Moment::START) {
                start.allocate(life);
            }
        }
        let trust = Trust::default();
        let history = DeviceHistory { snapshot, device, entries, segments, lives, start, trust };
        DeviceHistory { trust: history.judge(), ..history }
    }

    /// The snapshot it is read from.
    #[must_use]
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// The device's trace.
    #[must_use]
    pub fn entries(&self) -> &'a [TraceEntry] {
        self.entries
    }

    /// The device's segments, as they are at the end.
    #[must_use]
    pub fn segments(&self) -> &[&'a Segment] {
        &self.segments
    }

    /// After the last entry.
    #[must_use]
    pub fn end(&self) -> Moment {
        self.entries.len().checked_sub(1).map_or(Moment::START, Moment::after)
    }

    /// Every block that was ever in use, those from before the history included.
    #[must_use]
    pub fn lives(&self) -> &[Life] {
        &self.lives.all
    }

    /// The life that an entry begins, frees or ends.
    #[must_use]
    pub fn life_of(&self, entry: usize) -> Option<&Life> {
        let life = *self.lives.of_entry.get(entry)?;
        (life != NONE).then(|| &self.lives.all[life as usize])
    }

    /// The blocks in use at a moment.
    pub fn lives_at(&self, moment: Moment) -> impl Iterator<Item = &Life> {
        self.lives.all.iter().filter(move |life| life.is_active_at(moment))
    }

    /// The ranges held from the device at a moment, by address.
    #[must_use]
    pub fn segments_at(&self, moment: Moment) -> Vec<SegmentRange> {
        segments::at(&self.segments, self.entries, moment)
    }

    /// The figures of every moment, from before the first entry to after the last.
    pub fn totals(&self) -> impl Iterator<Item = (Moment, Totals)> {
        let first = std::iter::once((Moment::START, self.start));
        let mut totals = self.start;
        first.chain((0..self.entries.len()).map(move |entry| {
            self.apply(entry, &mut totals);
            (Moment::after(entry), totals)
        }))
    }

    /// The figures of one moment; those of the last moment if the history is shorter.
    #[must_use]
    pub fn totals_at(&self, moment: Moment) -> Totals {
        let mut totals = self.start;
        (0..moment.n_entries().min(self.entries.len())).for_each(|entry| self.apply(entry, &mut totals));
        totals
    }

    /// The first moment at which most bytes were in use.
    #[must_use]
    pub fn peak(&self) -> (Moment, Totals) {
        self.highest(|totals| totals.active_bytes)
    }

    /// The first moment at which a figure was highest. Moments between the allocation of a segment and of the block that
    /// it was made for do not count: the whole segment would seem unused.
    pub fn highest(&self, figure: impl Fn(&Totals) -> u64) -> (Moment, Totals) {
        let mut best = (Moment::START, self.start);
        for (moment, totals) in self.totals() {
            if figure(&totals) > figure(&best.1) && !self.is_within_a_request(moment) {
                best = (moment, totals);
            }
        }
        best
    }

    /// Whether what happened just before the moment only prepared what happens next.
    fn is_within_a_request(&self, moment: Moment) -> bool {
        let is_growth =
            |entry: &TraceEntry| matches!(entry.action, Some(Action::SegmentAlloc | Action::SegmentMap));
        let Some(before) = moment.entry() else { return false };
        let next = self.entries.get(before + 1);
        is_growth(&self.entries[before])
            && next.is_some_and(|next| is_growth(next) || next.action == Some(Action::Alloc))
    }

    fn apply(&self, entry: usize, totals: &mut Totals) {
        let now = Moment::after(entry);
        let TraceEntry { action, size, .. } = self.entries[entry];
        match action {
            Some(Action::SegmentAlloc | Action::SegmentMap) => {
                totals.reserved_bytes = totals.reserved_bytes.saturating_add(size);
            }
            Some(Action::SegmentFree | Action::SegmentUnmap) => {
                totals.reserved_bytes = totals.reserved_bytes.saturating_sub(size);
            }
            Some(Action::Alloc | Action::FreeRequested | Action::FreeCompleted) => {
                let second = u32::try_from(entry).ok().and_then(|entry| self.lives.second_of.get(&entry));
                let second = second.map(|life| &self.lives.all[*life as usize]);
                second.into_iter().chain(self.life_of(entry)).for_each(|life| totals.change(life, now));
            }
            _ => {}
        }
    }

    /// Why the figures may not be the whole truth.
    #[must_use]
    pub fn trust(&self) -> Trust {
        self.trust
    }

    fn judge(&self) -> Trust {
        let before = || self.lives.all.iter().filter(|life| life.is_from_before());
        let has_more_than_reserved =
            || self.totals().any(|(_, totals)| totals.active_bytes > totals.reserved_bytes);
        Trust {
            n_entries: self.entries.len(),
            n_before: before().count(),
            bytes_before: self.start.active_bytes,
            n_nameless: before().filter(|life| self.snapshot.frames(life.stack).next().is_none()).count(),
            reserved_before_bytes: self.start.reserved_bytes,
            n_contradictions: self.lives.n_contradictions,
            first_contradiction: self.lives.first_contradiction,
            first_disorder: first_disorder(self.entries, 0).map(|disorder| disorder.entry),
            lacks_segments: self.segments.is_empty() && !self.entries.is_empty(),
            lacks_segment_events: has_more_than_reserved(),
            ..Trust::from_settings(self.snapshot)
        }
    }
}
