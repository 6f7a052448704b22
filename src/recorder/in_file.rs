//! A device's part of a tape that is in a file: what waits until it is folded into the list of live blocks.
//!
//! A chunk that the ring drops stays in the file until the keeper has applied its events to the segments and blocks of
//! the device, and has written these into the file. So a reader of the file always finds a list of live blocks and
//! every event after it. If the keeper is another process that has left or does not follow, this one takes over.
//!
//! When the file has no room for a chunk, the device's part ends at that moment: it stays as it is, and later events are in
//! memory. Otherwise it would have events that follow from events which it lacks.
#![forbid(unsafe_code)]

use std::{collections::VecDeque, sync::Arc};

use super::{
    keeper::Keeper,
    lines::{Chunk, Lines},
    live::LiveState,
    log::Cut,
};
use crate::tape::{Agreement, BODY_BYTES, Kind, Note, Owner, ROW_BYTES, Rows, Slot, TakenAt, TapeFile};
use memreel_lockfree::events::FullChunk;
use memreel_snapshot::words::{DeviceId, InventorySegment, RunSums};

/// The keeper is woken when so many chunks are full and have no checksum yet.
const UNSEALED: usize = 64;

/// The part of the ring that waits at least, and the multiple of it at most, for the keeper. Where the list of live blocks
/// is longer than that part, as many chunks wait as the list has slots: each list is written anew.
const FOLDED_PART: usize = 8;
const MOST_PARTS: usize = 8;

/// The same multiple for a keeper in another process.
const PARTS_ELSEWHERE: usize = 4;

/// So many chunks more may wait: in a small ring the parts are few, and a fast program fills a thousand between two looks of a
/// keeper.
const MORE: usize = 1024;

/// Returns how many chunks of a device a file without a list of live blocks has at most. When there are more, the oldest of those
/// that wait is given up.
pub(crate) fn most_kept(capacity: usize) -> usize {
    let in_ring = capacity / Chunk::N_ENTRIES;
    in_ring + (in_ring / FOLDED_PART).max(1) * MOST_PARTS + MORE
}

/// Who folds what the ring dropped.
#[derive(Clone, Debug)]
enum Place {
    Here,
    OtherProcess(Agreement),
}

/// A device's part of a file.
#[derive(Debug)]
pub(super) struct InFile {
    pub(super) file: Arc<TapeFile>,
    device: DeviceId,
    keeper: Arc<Keeper>,
    place: Place,
    /// Whether there is work for the keeper in this process that it was not asked to do yet.
    is_due: bool,
    /// Whether so many events wait that the list is made anew.
    is_fold_due: bool,
    /// Chunks that were dropped and not yet folded, oldest first.
    pub(super) waiting: VecDeque<FullChunk<Lines>>,
    /// Full chunks without a checksum.
    unsealed: Vec<Arc<Chunk>>,
    /// The order word of the last event that is folded.
    pub(super) folded: u64,
    /// How many events were dropped without being folded, because the keeper was behind.
    n_missing: u64,
    /// What is live after `folded`; the keeper takes it while it folds.
    live: Option<Start>,
    /// The slots of the last list in the file, with its note.
    base: Vec<Slot>,
    /// Changes with each list that does not follow from the one before.
    n_begun: u32,
    /// Whether a list is to come that is of a moment before: then no event may leave the file.
    is_cut: bool,
    /// Whether later events are in memory, because the file could not grow.
    has_ended: bool,
}

/// The moment of a list of segments that is to come.
#[derive(Debug)]
pub(super) struct BaseCut {
    file: Arc<TapeFile>,
    until: u64,
    horizon: u64,
    n_begun: u32,
}

/// What is live before the events to fold.
#[derive(Debug)]
pub(super) enum Start {
    Live(Box<LiveState>),
    /// The list that another process has written into the file. It `may_lack` one if that process never said that it did.
    InFile {
        may_lack: bool,
    },
}

/// What the keeper folds.
pub(super) struct Fold {
    pub(super) start: Start,
    /// The order word up to which the latest list is, whoever wrote it; 0 if there is none.
    pub(super) folded: u64,
    pub(super) n_begun: u32,
    pub(super) n_missing: u64,
}

/// What the keeper has to do for one tape.
pub(super) struct Work {
    pub(super) file: Arc<TapeFile>,
    pub(super) device: DeviceId,
    pub(super) unsealed: Vec<Arc<Chunk>>,
    /// What is live, and the events to apply to it.
    pub(super) fold: Option<(Fold, Cut)>,
}

impl InFile {
    /// Begins a device's part, which another process keeps if `agreement` is with one.
    pub(super) fn new(
        file: Arc<TapeFile>,
        device: DeviceId,
        keeper: Arc<Keeper>,
        agreement: Option<Agreement>,
    ) -> InFile {
        InFile {
            file,
            device,
            keeper,
            place: agreement.map_or(Place::Here, Place::OtherProcess),
            is_due: false,
            is_fold_due: false,
            waiting: VecDeque::new(),
            unsealed: Vec::new(),
            folded: 0,
            n_missing: 0,
            live: Some(Start::Live(Box::default())),
            base: Vec::new(),
            n_begun: 0,
            is_cut: false,
            has_ended: false,
        }
    }

    /// Forgets what was recorded, up to the order word `until`.
    pub(super) fn erased(&self, until: u64) -> InFile {
        let InFile { file, device, keeper, place, n_begun, .. } = self;
        let new = InFile::new(file.clone(), *device, keeper.clone(), None);
        let mut erased = InFile { n_begun: n_begun + 1, place: place.clone(), ..new };
        if keeper.is_elsewhere() {
            // In place of a list that the keeper wrote, which may have left since.
            erased.begin(&[], until, until);
        }
        erased
    }

    /// Returns the file and the device of new chunks; `None` if they are in memory, because the file could not grow before.
    pub(super) fn place_of_chunk(&self) -> Option<(Arc<TapeFile>, DeviceId)> {
        (!self.has_ended).then(|| (self.file.clone(), self.device))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Ends this part at the order word `until`; `chunks` are those that the tape has. Nothing happens if it has ended.
    pub(super) fn end<'c>(&mut self, until: u64, chunks: impl Iterator<Item = &'c Arc<Chunk>>) {
        if !self.has_ended {
            self.has_ended = true;
            self.waiting.iter().for_each(|full| full.chunk.lines().end_at(until));
            chunks.for_each(|chunk| chunk.lines().end_at(until));
        }
    }

    /// Notes that a chunk is full.
    pub(super) fn fill(&mut self, chunk: &Arc<Chunk>) {
        // A keeper elsewhere reads the file, and gives its chunks checksums when the recording has ended.
        if chunk.lines().is_in_file() && matches!(self.place, Place::Here) {
            self.unsealed.push(chunk.clone());
            self.is_due |= self.unsealed.len() == UNSEALED;
        }
    }

    /// Returns the keeper, if there is work that it was not asked to do yet.
    pub(super) fn take_due(&mut self) -> Option<Arc<Keeper>> {
        std::mem::take(&mut self.is_due).then(|| self.keeper.clone())
    }

    /// Keeps a chunk that the ring dropped, as all events up to the order word `horizon`, until it is folded. If the keeper
    /// is too far behind, the oldest is given up.
    pub(super) fn wait(&mut self, chunk: FullChunk<Lines>, capacity: usize, horizon: u64) {
        let n_list_slots = match &self.place {
            Place::Here => self.base.len(),
            Place::OtherProcess(agreement) => agreement.n_list_slots(),
        };
        let part = (capacity / Chunk::N_ENTRIES / FOLDED_PART).max(n_list_slots).max(1);
        if self.has_ended {
            // What is in the file stays there.
            return if chunk.chunk.lines().is_in_file() {
                self.waiting.push_back(chunk)
            };
        }
        self.waiting.push_back(chunk);
        let is_due = self.waiting.len().is_multiple_of(part);
        match &self.place {
            Place::Here => {
                self.is_due |= is_due;
                self.is_fold_due |= is_due;
                if self.waiting.len() > part * MOST_PARTS + MORE && !self.is_cut {
                    self.waiting.pop_front();
                    self.n_missing += Chunk::N_ENTRIES as u64;
                }
            }
            Place::OtherProcess(agreement) => {
                if is_due && !self.is_cut {
                    agreement.set_due(horizon);
                }
                let folded = agreement.folded();
                if folded > self.folded {
                    self.folded = folded;
                    self.waiting.retain(|chunk| chunk.last > folded);
                }
                if self.waiting.len() > part * PARTS_ELSEWHERE + MORE && !self.is_cut {
                    let start = Start::InFile { may_lack: folded == 0 };
                    (self.place, self.live) = (Place::Here, Some(start));
                    (self.is_due, self.is_fold_due) = (true, true);
                }
            }
        }
    }

    /// Returns the full chunks that have no checksum yet.
    pub(super) fn take_unsealed(&mut self) -> Vec<Arc<Chunk>> {
        std::mem::take(&mut self.unsealed)
    }

    /// Begins to fold the events up to the order word `until`; `None` if not enough of them wait, and while another thread folds.
    pub(super) fn begin_fold(&mut self, until: u64) -> Option<Fold> {
        if !std::mem::take(&mut self.is_fold_due)
            || self.waiting.is_empty()
            || until <= self.folded
            || self.has_ended
        {
            return None;
        }
        if let Place::OtherProcess(_) = self.place {
            return None;
        }
        let start = self.live.take()?;
        Some(Fold { start, folded: self.folded, n_begun: self.n_begun, n_missing: self.n_missing })
    }

    /// Ends folding up to the event with the order word `until`. Nothing changes if another list began meanwhile.
    pub(super) fn end_fold(&mut self, fold: Fold, until: u64, base: Option<Vec<Slot>>) {
        if self.n_begun != fold.n_begun {
            return;
        }
        self.live = Some(fold.start);
        if let Some(base) = base.filter(|_| !self.has_ended) {
            self.base = base;
            self.folded = until;
            self.waiting.retain(|chunk| chunk.last > until);
        }
    }

    /// Begins anew with segments that are to come, those after the event with the order word `until`. Events up to `horizon`
    /// were dropped.
    pub(super) fn cut_base(&mut self, until: u64, horizon: u64) -> BaseCut {
        self.n_begun += 1;
        self.n_missing = 0;
        (self.live, self.is_cut) = (None, true);
        BaseCut { file: self.file.clone(), until, horizon, n_begun: self.n_begun }
    }

    /// Takes the segments of a cut, unless another one came after it.
    pub(super) fn begin_at(&mut self, segments: &[InventorySegment], cut: &BaseCut) {
        if Arc::ptr_eq(&cut.file, &self.file) && cut.n_begun == self.n_begun {
            self.begin(segments, cut.until, cut.horizon);
        }
    }

    fn begin(&mut self, segments: &[InventorySegment], until: u64, horizon: u64) {
        let live = Box::new(LiveState::of(segments));
        self.is_cut = false;
        if let Some(base) =
            write(&self.file, self.device, (segments, &RunSums::default()), (until, horizon), 0)
        {
            self.base = base;
            self.folded = until;
        }
        self.live = Some(Start::Live(live));
        // Behind the list, which the keeper then reads.
        if let Place::OtherProcess(agreement) = &self.place {
            agreement.begin_again();
        }
    }

    pub(super) fn device(&self) -> DeviceId {
        self.device
    }
}

/// Writes a list of segments and blocks, with what was allocated before, into a file, and the note that makes it the last.
/// Returns its slots; `None` if the file cannot grow.
pub(crate) fn write(
    file: &Arc<TapeFile>,
    device: DeviceId,
    (segments, sums): (&[InventorySegment], &RunSums),
    (until, horizon): (u64, u64),
    n_missing: u64,
) -> Option<Vec<Slot>> {
    const { assert!(BODY_BYTES.is_multiple_of(ROW_BYTES)) };
    let mut rows = Rows::encoded(segments, sums).peekable();
    let (mut slots, mut sealed) = (Vec::new(), Vec::new());
    let mut part = Vec::with_capacity(BODY_BYTES);
    while rows.peek().is_some() {
        part.clear();
        rows.by_ref().take(BODY_BYTES / ROW_BYTES).for_each(|row| part.extend_from_slice(&row));
        let slot = file.slot()?;
        slot.begin(Kind::Rows, Owner::Device(device), TakenAt::default(), 0);
        slot.fill(&part);
        sealed.push((slot.number(), slot.seal(part.len())));
        slots.push(slot);
    }
    let note = Note::Base { device: device.0, until, horizon, n_missing, slots: sealed };
    // With its rows it is freed by the next list: in the notes that are kept, it would fill the file in time.
    slots.extend(file.note_apart(device, &note)?);
    Some(slots)
}
