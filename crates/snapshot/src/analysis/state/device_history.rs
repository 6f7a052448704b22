//! The allocator's state at any moment of one device's history, reconstructed from a snapshot.
//!
//! ```text
//!   before ──entry 0── 1 ──entry 1── 2 ── … ── n: the blocks and segments of the file
//!     0
//! ```
//!
//! Everything except sorting takes time linear in the trace: the blocks' lives are found once, and each question then
//! filters them.

use std::{
    collections::BTreeSet,
    ptr,
    sync::{Arc, OnceLock},
};

use serde::Serialize;

use super::{
    lives::{Lives, NONE},
    names::BlockNameTable,
    run_peak::{EarlierPeak, of_run},
    segments::{self, SegmentRange},
    shared::Shared,
};
use crate::{
    analysis::{
        ShownFrames,
        frames::{IN_BACKWARD, aliases, is_backward},
    },
    history::{Absence, Life, Moment, Scopes, Times, Trust, disorder, reserved_at_start},
    model::{Segment, Snapshot, Text, TraceEntry},
    words::{Action, DeviceId},
};

/// The figures of one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Totals {
    /// The moment.
    #[serde(rename = "event")]
    pub moment: Moment,
    /// The requested bytes of the blocks that the program holds; for a sampled heap an estimate
    /// ([`Life::represented_bytes`]), as in the next field.
    pub allocated_bytes: u64,
    /// The requested bytes of these and of the blocks whose free waits for a stream. The viewer's
    /// timeline draws this figure.
    pub active_bytes: u64,
    /// The bytes of the blocks in use, with the minimum that rounding can have added ([`Life::bytes`]).
    pub rounded_bytes: u64,
    /// The bytes that are held from the device.
    pub reserved_bytes: u64,
    /// The number of blocks in use.
    pub n_blocks: usize,
}

impl Totals {
    /// Returns the bytes of device memory that are held outside blocks: cached, or wasted.
    #[must_use]
    pub fn unused_bytes(&self) -> u64 {
        self.reserved_bytes.saturating_sub(self.rounded_bytes)
    }

    /// Returns the minimum number of bytes that rounding adds to the blocks in use.
    #[must_use]
    pub fn rounding_bytes(&self) -> u64 {
        self.rounded_bytes.saturating_sub(self.active_bytes)
    }

    /// Applies a block's change at a moment.
    fn change(&mut self, life: &Life) {
        if life.from == self.moment {
            self.add(life);
            self.allocate(life);
        }
        if life.requested == self.moment {
            self.request(life);
        }
        if life.until == self.moment {
            self.end(life);
        }
    }

    fn add(&mut self, life: &Life) {
        self.active_bytes = self.active_bytes.saturating_add(life.represented_bytes);
        self.rounded_bytes = self.rounded_bytes.saturating_add(life.bytes);
        self.n_blocks += 1;
    }

    fn allocate(&mut self, life: &Life) {
        self.allocated_bytes = self.allocated_bytes.saturating_add(life.represented_bytes);
    }

    fn request(&mut self, life: &Life) {
        self.allocated_bytes = self.allocated_bytes.saturating_sub(life.represented_bytes);
    }

    fn end(&mut self, life: &Life) {
        self.active_bytes = self.active_bytes.saturating_sub(life.represented_bytes);
        self.rounded_bytes = self.rounded_bytes.saturating_sub(life.bytes);
        self.n_blocks = self.n_blocks.saturating_sub(1);
    }
}

/// The history of one device's memory, reconstructed from a snapshot.
///
/// ```
/// # use memreel::{DeviceId, Reel, recorder::Recording};
/// use memreel::analysis::DeviceHistory;
///
/// let reel = Reel::builder().history(Recording::all()).build()?;
/// drop((reel.alloc(1000)?, reel.alloc(3000)?));
/// let snapshot = reel.snapshot();
/// let history = DeviceHistory::new(&snapshot, DeviceId(0));
/// let peak = history.peak();
/// assert_eq!((peak.active_bytes, history.lives_at(peak.moment).count()), (4000, 2));
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Debug)]
pub struct DeviceHistory<'a> {
    shared: Arc<Shared<'a>>,
    snapshot: &'a Snapshot,
    device: DeviceId,
    entries: &'a [TraceEntry],
    segments: Vec<&'a Segment>,
    lives: Lives,
    start: Totals,
    /// Computed at the first use of a name.
    names: OnceLock<BlockNameTable>,
    /// Computed at the first use, because it takes a walk over all moments.
    trust: OnceLock<Trust>,
    earlier_peak: OnceLock<Option<Box<EarlierPeak>>>,
}

/// Returns the devices that have events or segments, in ascending order, and last [`DeviceId::HOST`] if the file has pinned host
/// memory.
#[must_use]
pub fn devices(snapshot: &Snapshot) -> Vec<DeviceId> {
    let of_segments = snapshot.segments.iter().filter_map(|segment| u16::try_from(segment.device.0).ok());
    let traces = snapshot.device_traces.iter().zip(0..=u16::MAX);
    let of_traces = traces.filter(|(trace, _)| !trace.is_empty()).map(|(_, device)| device);
    let found: BTreeSet<u16> = of_segments.chain(of_traces).collect();
    found.into_iter().map(DeviceId::from).chain(snapshot.has_host().then_some(DeviceId::HOST)).collect()
}

impl<'a> DeviceHistory<'a> {
    /// Reads the trace and the segments of a device. Both may be empty.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot, device: DeviceId) -> DeviceHistory<'a> {
        DeviceHistory::sharing(Arc::new(Shared::new(snapshot)), device)
    }

    /// Like [`DeviceHistory::new`], for several devices of one snapshot.
    pub(super) fn sharing(shared: Arc<Shared<'a>>, device: DeviceId) -> DeviceHistory<'a> {
        let snapshot = shared.records.snapshot();
        let entries = snapshot.trace(device);
        let segments: Vec<&Segment> = shared.records.segments(device).map(|(_, segment)| segment).collect();
        let mut lives = Lives::new(entries, &segments, shared.records.recorded(device));
        if let Some(is_alias) = aliases(snapshot) {
            lives.count_elsewhere(is_alias);
        }
        let reserved_bytes = reserved_at_start(entries, segments.iter().copied());
        let mut start = Totals { reserved_bytes, ..Totals::default() };
        for life in lives.all.iter().filter(|life| life.is_active_at(Moment::START)) {
            start.add(life);
            if life.is_allocated_at(Moment::START) {
                start.allocate(life);
            }
        }
        let (names, trust, earlier_peak) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        DeviceHistory {
            shared,
            snapshot,
            device,
            entries,
            segments,
            lives,
            start,
            names,
            trust,
            earlier_peak,
        }
    }

    pub(crate) fn shared(&self) -> &Shared<'a> {
        &self.shared
    }

    /// Returns the judged frames of the snapshot. All devices of a snapshot share them
    /// ([`Histories`](super::Histories)).
    #[must_use]
    pub fn shown_frames(&self) -> ShownFrames<'a> {
        let shown = self.shared.shown();
        let trust = self.trust();
        match (trust.names_the_rest, trust.lacks_in_backward, trust.n_nameless) {
            (true, ..) => shown.with_no_stack("(before the recording)"),
            (_, true, 0) => shown.with_no_stack(IN_BACKWARD),
            (_, true, _) => {
                shown.with_no_stack("(no stack: from before the recording, or made in a backward)")
            }
            _ => shown,
        }
    }

    /// Returns the scopes of the device.
    #[must_use]
    pub fn scopes(&self) -> Scopes<'a> {
        Scopes::of_device(&self.shared.records, self.device)
    }

    /// Returns the snapshot that it is read from.
    #[must_use]
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// Returns the device.
    #[must_use]
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// Returns the device's trace.
    #[must_use]
    pub fn entries(&self) -> &'a [TraceEntry] {
        self.entries
    }

    /// Returns the device's segments as they are at the end.
    #[must_use]
    pub fn segments(&self) -> &[&'a Segment] {
        &self.segments
    }

    /// Returns the time between the first entry and the last, in microseconds; `None` if no times were recorded.
    /// Entries without a time have that of a neighbour.
    #[must_use]
    pub fn span_us(&self) -> Option<i64> {
        let times = Times::new(self.entries);
        let last = times.get(self.entries.len().checked_sub(1)?)?;
        let has_times = last != 0 || self.entries.iter().any(|entry| entry.time_us != 0);
        has_times.then(|| last.saturating_sub(times.get(0).unwrap_or(last)))
    }

    /// Returns the moment after the last entry.
    #[must_use]
    pub fn end(&self) -> Moment {
        self.entries.len().checked_sub(1).map_or(Moment::START, Moment::after)
    }

    /// Returns every block that was ever in use, including those from before the history.
    #[must_use]
    pub fn lives(&self) -> &[Life] {
        &self.lives.all
    }

    /// Returns the life that an entry starts, frees or ends.
    #[must_use]
    pub fn life_of(&self, entry: usize) -> Option<&Life> {
        self.life_number(entry).map(|number| &self.lives.all[number])
    }

    /// Returns the place in [`DeviceHistory::lives`] of the life that an entry starts, frees or ends.
    pub(crate) fn life_number(&self, entry: usize) -> Option<usize> {
        let life = *self.lives.of_entry.get(entry)?;
        (life != NONE).then_some(life as usize)
    }

    /// Returns the place in [`DeviceHistory::lives`] of a life that this history returned by reference.
    ///
    /// # Panics
    /// If the reference is not one of this history's.
    #[must_use]
    pub fn number_of(&self, life: &Life) -> usize {
        let all = self.lives();
        let number = ptr::from_ref(life).addr().wrapping_sub(all.as_ptr().addr()) / size_of::<Life>();
        assert!(all.get(number).is_some_and(|there| ptr::eq(there, life)), "the life is of another history");
        number
    }

    /// Returns the names that a block was given by `annotate` entries (PyTorch 2.14 and later, and
    /// `memreel::Allocation::annotate`), each once, in the order of the entries.
    #[must_use]
    pub fn names_of(&self, life: &Life) -> Vec<&'a str> {
        self.name_texts(life).into_iter().map(|name| &**name).collect()
    }

    /// Like [`DeviceHistory::names_of`], as text that results share.
    pub(crate) fn name_texts(&self, life: &Life) -> Vec<&'a Text> {
        self.texts_of_names(&self.name_numbers(life)).collect()
    }

    /// Returns the numbers of the names that a block was given, each once: equal names have equal numbers.
    pub(crate) fn name_numbers(&self, life: &Life) -> Vec<u32> {
        let Some(naming) = self.lives.named_by.get(&(life.address, life.from)) else { return Vec::new() };
        self.names_table().numbers(naming.iter().map(|entry| &self.entries[*entry as usize]))
    }

    /// Returns the names with these numbers.
    pub(crate) fn texts_of_names(&self, numbers: &[u32]) -> impl Iterator<Item = &'a Text> {
        let (table, snapshot) = (self.names_table(), self.snapshot);
        numbers.iter().filter_map(move |number| table.name(*number, snapshot))
    }

    fn names_table(&self) -> &BlockNameTable {
        self.names.get_or_init(|| BlockNameTable::new(self.snapshot, self.entries))
    }

    /// Returns the blocks in use at a moment.
    pub fn lives_at(&self, moment: Moment) -> impl Iterator<Item = &Life> {
        self.lives.all.iter().filter(move |life| life.is_active_at(moment))
    }

    /// Returns the ranges of device memory that are held at a moment, by address.
    #[must_use]
    pub fn segments_at(&self, moment: Moment) -> Vec<SegmentRange> {
        segments::at(self.snapshot, &self.segments, self.entries, moment)
    }

    /// Returns the figures of every moment, from before the first entry to after the last.
    pub fn totals(&self) -> impl Iterator<Item = Totals> {
        std::iter::once(self.start).chain(self.totals_after(self.start))
    }

    /// Returns the figures of every moment after the one that `totals` are of.
    pub fn totals_after(&self, totals: Totals) -> impl Iterator<Item = Totals> {
        let mut totals = totals;
        (totals.moment.n_entries()..self.entries.len()).map(move |entry| {
            self.apply(entry, &mut totals);
            totals
        })
    }

    /// Returns the figures of one moment, or of the last one if the history is shorter.
    #[must_use]
    pub fn totals_at(&self, moment: Moment) -> Totals {
        let mut totals = self.start;
        (0..moment.n_entries().min(self.entries.len())).for_each(|entry| self.apply(entry, &mut totals));
        totals
    }

    /// Returns the peak of the whole run, if the file shows that more was in use before its events than at any moment
    /// of them.
    #[must_use]
    pub fn earlier_peak(&self) -> Option<&EarlierPeak> {
        let recorded = self.shared.records.recorded(self.device);
        let earlier = || EarlierPeak::of(self.snapshot, self.device, recorded, || self.peak().active_bytes);
        self.earlier_peak.get_or_init(|| earlier().map(Box::new)).as_deref()
    }

    /// Returns the figures of the first moment with the most bytes in use, of those that the events have
    /// ([`DeviceHistory::earlier_peak`]).
    #[must_use]
    pub fn peak(&self) -> Totals {
        self.highest(|totals| totals.active_bytes)
    }

    /// Returns the figures of the first moment at which `figure` is highest.
    ///
    /// Moments between the allocation of a segment and that of the block for which it was allocated do not count,
    /// because the whole segment would appear unused.
    pub fn highest(&self, figure: impl Fn(&Totals) -> u64) -> Totals {
        self.highest_until(self.end(), figure)
    }

    /// Like [`DeviceHistory::highest`], among the moments until one.
    pub(crate) fn highest_until(&self, last: Moment, figure: impl Fn(&Totals) -> u64) -> Totals {
        let mut best = self.start;
        for totals in self.totals().take_while(|totals| totals.moment <= last) {
            if figure(&totals) > figure(&best) && !self.is_within_a_request(totals.moment) {
                best = totals;
            }
        }
        best
    }

    /// Returns the figures of the first moment with the most bytes in use in the scopes with a name, and in those
    /// inside them; `None` without such a scope. The moment at which a scope starts belongs to it.
    #[must_use]
    pub fn peak_in(&self, scope: &str) -> Option<Totals> {
        let is_in = self.scopes().entries_in(scope);
        let (mut before, mut best) = (self.start, None::<Totals>);
        for (totals, is_in) in self.totals_after(self.start).zip(is_in) {
            for totals in [before, totals].into_iter().filter(|_| is_in) {
                if best.is_none_or(|best| totals.active_bytes > best.active_bytes) {
                    best = Some(totals);
                }
            }
            before = totals;
        }
        best
    }

    /// Returns whether the last entry before the moment only prepares the next entry.
    fn is_within_a_request(&self, moment: Moment) -> bool {
        let is_growth =
            |entry: &TraceEntry| matches!(entry.action, Some(Action::SegmentAlloc | Action::SegmentMap));
        let Some(before) = moment.entry() else { return false };
        let next = self.entries.get(before + 1);
        is_growth(&self.entries[before])
            && next.is_some_and(|next| is_growth(next) || next.action == Some(Action::Alloc))
    }

    #[inline]
    fn second_life_of(&self, entry: usize) -> Option<&Life> {
        let seconds = &self.lives.second_of;
        if seconds.is_empty() {
            return None;
        }
        let life = seconds.get(&u32::try_from(entry).ok()?)?;
        Some(&self.lives.all[*life as usize])
    }

    #[inline]
    fn apply(&self, entry: usize, totals: &mut Totals) {
        totals.moment = Moment::after(entry);
        let TraceEntry { action, size, .. } = self.entries[entry];
        match action {
            Some(Action::SegmentAlloc | Action::SegmentMap) => {
                totals.reserved_bytes = totals.reserved_bytes.saturating_add(size);
            }
            Some(Action::SegmentFree | Action::SegmentUnmap) => {
                totals.reserved_bytes = totals.reserved_bytes.saturating_sub(size);
            }
            Some(Action::Alloc | Action::FreeRequested | Action::FreeCompleted) => {
                if let Some(second) = self.second_life_of(entry) {
                    totals.change(second);
                }
                if let Some(life) = self.life_of(entry) {
                    totals.change(life);
                }
            }
            _ => {}
        }
    }

    /// Returns the facts that limit how far the figures can be trusted.
    #[must_use]
    pub fn trust(&self) -> Trust {
        *self.trust.get_or_init(|| self.judge())
    }

    fn judge(&self) -> Trust {
        let before = || self.lives.all.iter().filter(|life| life.is_from_before());
        let (mut end, mut has_more_than_reserved) = (self.start, false);
        // Sampled blocks stand for others, which are in no segment.
        let is_weighted = self.shared.records.recorded(self.device).weight_bytes > 0;
        for totals in self.totals() {
            has_more_than_reserved |= totals.active_bytes > totals.reserved_bytes && !is_weighted;
            end = totals;
        }
        let segments_bytes = self.segments.iter().fold(0, |sum: u64, s| sum.saturating_add(s.total_size));
        let is_held = end.reserved_bytes > 0 || end.n_blocks > 0;
        let n_contradictions = self.lives.n_contradictions;
        let is_nameless = |life: &&Life| self.snapshot.frames(life.stack).next().is_none();
        let n_nameless = before().filter(is_nameless).count();
        let since = || self.lives.all.iter().filter(|life| !life.is_from_before());
        let (lacks, has) = (since().any(|life| is_nameless(&life)), since().any(|life| !is_nameless(&life)));
        Trust {
            n_entries: self.entries.len(),
            n_before: before().count(),
            bytes_before: self.start.active_bytes,
            n_nameless,
            names_the_rest: n_nameless > 0 && has && !lacks,
            lacks_in_backward: lacks && has && self.snapshot.stacks.all_frames().any(is_backward),
            reserved_before_bytes: self.start.reserved_bytes,
            n_contradictions,
            first_contradiction: self.lives.first_contradiction,
            first_disorder: disorder(self.entries, n_contradictions > 0).map(|disorder| disorder.entry),
            n_uncompleted: self.lives.n_uncompleted,
            n_unrequested: self.lives.n_unrequested,
            lacks_block_events: self.lacks_block_events(),
            lacks_segments: self.segments.is_empty() && is_held,
            lacks_segment_events: has_more_than_reserved || end.reserved_bytes != segments_bytes,
            absence: Absence::of(&self.shared.records, self.device),
            run_peak_bytes: of_run(self.snapshot, self.device, self.shared.records.recorded(self.device))
                .map(|(_, bytes)| bytes),
            ..Trust::from_settings(&self.shared.records, self.device)
        }
    }

    /// Returns whether memory was taken from the device, but no entry is about a block in it. Another reason for that
    /// is that allocations were filtered out.
    fn lacks_block_events(&self) -> bool {
        let is_of_block = |entry: &TraceEntry| {
            matches!(entry.action, Some(Action::Alloc | Action::FreeRequested | Action::FreeCompleted))
        };
        let is_growth =
            |entry: &TraceEntry| matches!(entry.action, Some(Action::SegmentAlloc | Action::SegmentMap));
        let Trust { min_size_bytes, sample_bytes, .. } =
            Trust::from_settings(&self.shared.records, self.device);
        (min_size_bytes, sample_bytes) == (0, 0)
            && !self.entries.iter().any(is_of_block)
            && self.entries.iter().any(is_growth)
    }
}
