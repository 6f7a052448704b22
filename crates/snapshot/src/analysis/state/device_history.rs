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

use super::{
    lives::{Lives, NONE},
    names::BlockNameTable,
    run_peak::EarlierPeak,
    segments::{self, SegmentRange},
    shared::SharedRecords,
    totals::Totals,
};
use crate::{
    analysis::{
        ShownFrames,
        frames::{IN_BACKWARD, aliases},
    },
    history::{Life, Moment, Scopes, Times, Trust, reserved_at_start},
    model::{Segment, Snapshot, Text, TraceEntry},
    words::DeviceId,
};

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
    pub(super) shared: Arc<SharedRecords<'a>>,
    pub(super) snapshot: &'a Snapshot,
    pub(super) device: DeviceId,
    pub(super) entries: &'a [TraceEntry],
    pub(super) segments: Vec<&'a Segment>,
    pub(super) lives: Lives,
    pub(super) start: Totals,
    /// Made when a name is first asked for.
    names: OnceLock<BlockNameTable>,
    /// Judged when it is first asked for, because that takes a walk over all moments.
    pub(super) trust: OnceLock<Trust>,
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
    pub fn new(snapshot: &'a Snapshot, device: impl Into<DeviceId>) -> DeviceHistory<'a> {
        DeviceHistory::sharing(Arc::new(SharedRecords::new(snapshot)), device.into())
    }

    /// Like [`DeviceHistory::new`], for several devices of one snapshot.
    pub(super) fn sharing(shared: Arc<SharedRecords<'a>>, device: DeviceId) -> DeviceHistory<'a> {
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

    pub(crate) fn shared(&self) -> &SharedRecords<'a> {
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
            (_, true, _) => shown.with_no_stack("(no stack: from before the recording, or made in backward)"),
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

    /// Returns the peak of the whole run, if the file says that more was in use before its events than at any moment of them.
    #[must_use]
    pub fn earlier_peak(&self) -> Option<&EarlierPeak> {
        let recorded = self.shared.records.recorded(self.device);
        let earlier = || EarlierPeak::of(self.snapshot, self.device, recorded, || self.peak().active_bytes);
        self.earlier_peak.get_or_init(|| earlier().map(Box::new)).as_deref()
    }
}
