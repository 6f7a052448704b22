//! The file of a tape: hands out slots, and writes the notes in some of them.

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    agreement::Agreement,
    contents::{Base, Contents},
    layout::{BODY_BYTES, Beginning, Kind, Owner},
    mapped::Mapped,
    notes::{MAX_ANNOTATION_BYTES, Note, framed_parts},
    slot::{Slot, TakenAt},
};
use crate::process::fork::{Forking, Held, Part};
use memreel_snapshot::words::{DeviceId, Error, Result};

/// A tape's file. It is open until the recording ends; in a child of `fork` it is closed from the start.
#[derive(Debug)]
pub(crate) struct TapeFile {
    mapped: Arc<Mapped>,
    notes: Mutex<Notes>,
    annotations: Mutex<Notes>,
    reports: Mutex<Notes>,
}

/// The slot that notes are added to, and those before it.
#[derive(Debug)]
struct Notes {
    owner: Owner,
    slot: Option<Slot>,
    n_bytes: usize,
    full: VecDeque<Slot>,
    /// How many full slots are kept.
    n_kept: usize,
}

impl TapeFile {
    /// Creates the file of a tape. An existing file is renamed, with `.old` appended: it may be the tape of a run that
    /// crashed.
    ///
    /// # Errors
    /// [`Error::is_io`](crate::Error::is_io).
    pub(crate) fn create(path: &Path, beginning: Beginning) -> Result<TapeFile> {
        Ok(TapeFile::of(Mapped::create(path, beginning)?, Owner::Reports))
    }

    fn of(mapped: Mapped, reports: Owner) -> TapeFile {
        TapeFile {
            mapped: Arc::new(mapped),
            notes: Mutex::new(Notes::of(Owner::Recording)),
            annotations: Mutex::new(Notes::of(Owner::Annotations)),
            reports: Mutex::new(Notes::of(reports)),
        }
    }

    /// Opens the tape of another process, to keep it.
    ///
    /// # Errors
    /// [`Error::is_io`](crate::Error::is_io), and [`Error::is_malformed`](crate::Error::is_malformed) if it is not a tape
    /// of this version.
    pub(crate) fn attach(path: &Path) -> Result<TapeFile> {
        Contents::open_header(path)?;
        // A note that takes several slots must not be interleaved with notes of the other process.
        Ok(TapeFile::of(Mapped::attach(path)?, Owner::Outside))
    }

    /// Returns whether another program made the file shorter.
    pub(crate) fn is_cut(&self) -> bool {
        self.mapped.is_cut()
    }

    /// Reads what a list of a device's live blocks needs; see [`Contents::read_until`].
    ///
    /// # Errors
    /// The errors of [`Contents::read_until`], and [`Error::is_io`](crate::Error::is_io) if another file has the path
    /// now.
    pub(crate) fn read_until(&self, device: DeviceId, until: u64) -> Result<Contents> {
        self.mapped.with_file(|file| Contents::read_until(file, self.path(), device, until))
    }

    /// Returns a device's last list of live blocks, which must include at least the order word `folded`; `None` if
    /// there is no list, which is an error unless it `may_lack` one. It is read from memory, without a system call,
    /// which the program may have forbidden itself. The file is read only if memory does not have the list.
    ///
    /// # Errors
    /// [`Error::is_io`](crate::Error::is_io): the file cannot be read, another one has the path, or the list was replaced
    /// while it was read.
    pub(crate) fn last_list(&self, device: DeviceId, folded: u64, may_lack: bool) -> Result<Option<Base>> {
        let is_it = |list: &Option<Base>| list.as_ref().map_or(may_lack, |list| list.until >= folded);
        let memory = self.mapped.memory();
        if let Ok(list) = Contents::last_list(&memory, device)
            && is_it(&list)
            && (list.is_some() || memory.is_whole())
        {
            return Ok(list);
        }
        let failed = |error| Error::io("cannot read the tape", self.path(), error);
        let list = self.mapped.with_file(|file| Contents::last_list(file, device).map_err(failed))?;
        if is_it(&list) { Ok(list) } else { Err(failed(io::Error::other("its list was replaced"))) }
    }

    /// Sets that nothing is recorded without the file, for the line about a file that cannot grow.
    pub(crate) fn set_alone(&self) {
        self.mapped.set_alone();
    }

    /// Maps memory ahead, for parts by which another process will extend the file.
    pub(crate) fn map_ahead(&self) {
        self.mapped.map_ahead();
    }

    /// Extends the file for the recording process.
    pub(crate) fn promise(&self) {
        self.mapped.promise();
    }

    /// Returns which device is the heap of the recording process, and how much of it is the recorder's; `None` if no
    /// heap is recorded.
    pub(crate) fn heap(&self) -> Option<(DeviceId, u64)> {
        self.mapped.heap()
    }

    /// Returns the address of the recording process's table of the recorder's own mappings; 0 if it has none.
    pub(crate) fn own_maps(&self) -> u64 {
        self.mapped.own_maps()
    }

    /// Returns when the recording started, and the length of a tick.
    pub(crate) fn beginning(&self) -> Beginning {
        self.mapped.beginning()
    }

    /// Returns the folder in `/proc` of the recording process, if it is running.
    pub(crate) fn process_folder(&self) -> Option<PathBuf> {
        self.mapped.process_folder()
    }

    /// Offers the events of a device to a keeper in another process; `None` if there are too many devices.
    pub(crate) fn offer(&self, device: DeviceId) -> Option<Agreement> {
        Agreement::offer(&self.mapped, device)
    }

    /// Returns what was agreed on for each device that was offered.
    pub(crate) fn agreements(&self) -> Vec<Agreement> {
        Agreement::all(&self.mapped)
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        self.mapped.path()
    }

    /// Returns whether slots are taken and freed: not after [`TapeFile::close`], and not in a child of `fork`.
    pub(crate) fn is_open(&self) -> bool {
        self.mapped.is_open()
    }

    /// Ends the recording: the file keeps its contents, whatever is dropped from now on.
    pub(crate) fn close(&self) {
        self.mapped.close();
    }

    /// Leaves the file to the parent process. In a child of `fork`, this is called before any slot is dropped.
    pub(crate) fn leave(&self) {
        self.mapped.leave();
    }

    /// Takes a slot, which readers consider free until [`Slot::begin`]. `None` if the file is closed or cannot grow,
    /// which is reported once.
    pub(crate) fn slot(&self) -> Option<Slot> {
        Slot::take(&self.mapped)
    }

    /// Adds a note. It is in the file when this returns, unless the file cannot grow.
    pub(crate) fn note(&self, note: &Note) {
        self.add(&mut lock(&self.notes), &note.encode());
    }

    /// Writes a note of a device into separate slots, in which it remains as long as they are kept. `None` if the file
    /// cannot grow.
    pub(crate) fn note_apart(&self, device: DeviceId, note: &Note) -> Option<Vec<Slot>> {
        let in_slot = |part: Vec<u8>| {
            let slot = self.slot()?;
            slot.begin(Kind::Notes, Owner::Device(device), TakenAt::default(), 0);
            slot.fill(&part);
            Some(slot)
        };
        framed_parts(&note.encode()).map(in_slot).collect()
    }

    /// Adds the note of a scope's start or end. Only the newest of these are kept.
    pub(crate) fn annotate(&self, note: &Note) {
        self.add(&mut lock(&self.annotations), &note.encode());
    }

    /// Sets the minimum number of annotations that are kept.
    pub(crate) fn keep_annotations(&self, n: usize) {
        lock(&self.annotations).n_kept = n.div_ceil(BODY_BYTES / MAX_ANNOTATION_BYTES);
    }

    /// Adds the note of a device's report.
    pub(crate) fn report(&self, note: &Note) {
        self.add(&mut lock(&self.reports), &note.encode());
    }

    /// Writes notes that replace all notes of reports. If the file cannot grow, the old notes remain.
    pub(crate) fn replace_reports(&self, notes: impl Iterator<Item = Note>) {
        let mut reports = lock(&self.reports);
        let mut new = Notes::of(reports.owner);
        let is_written =
            notes.map(|note| self.try_add(&mut new, &note.encode())).all(|added| added.is_some());
        if is_written && self.is_open() {
            *reports = new;
        }
    }

    fn add(&self, notes: &mut Notes, bytes: &[u8]) {
        let _ = self.try_add(notes, bytes);
    }

    /// Adds the bytes of a note. `None` if the file is closed or has no room: then the remaining parts are left out.
    fn try_add(&self, notes: &mut Notes, bytes: &[u8]) -> Option<()> {
        // The slot for notes is still mapped, and in a child of `fork` it is the parent's.
        if !self.is_open() {
            return None;
        }
        framed_parts(bytes).try_for_each(|part| self.add_part(notes, &part))
    }

    fn add_part(&self, notes: &mut Notes, bytes: &[u8]) -> Option<()> {
        if notes.slot.is_none() || notes.n_bytes + bytes.len() > BODY_BYTES {
            let slot = self.slot()?;
            slot.begin(Kind::Notes, notes.owner, TakenAt::default(), 0);
            notes.full.extend(notes.slot.replace(slot));
            while notes.full.len() > notes.n_kept {
                notes.full.pop_front();
            }
            notes.n_bytes = 0;
        }
        let from = notes.n_bytes;
        let slot = notes.slot.as_ref()?;
        // SAFETY: `from + bytes.len()` is within the body, by the check above, and the lock of `notes` protects it.
        unsafe { slot.body().add(from).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        slot.set_len(from + bytes.len());
        notes.n_bytes = from + bytes.len();
        Some(())
    }
}

impl Notes {
    fn of(owner: Owner) -> Notes {
        Notes { owner, slot: None, n_bytes: 0, full: VecDeque::new(), n_kept: usize::MAX }
    }
}

impl Drop for TapeFile {
    /// The slots of its notes are dropped next, and remain in the file.
    fn drop(&mut self) {
        self.close();
    }
}

/// A child of `fork` has the mapping, and must not write into its parent's tape.
impl Part<Forking> for TapeFile {
    fn hold(self: Arc<Self>, held: &mut Held) {
        held.lock(&self, |file| &file.notes, |_, _| {}, |file, _| file.mapped.leave());
        held.lock(&self, |file| &file.annotations, |_, _| {}, |_, _| {});
        held.lock(&self, |file| &file.reports, |_, _| {}, |_, _| {});
        held.lock(&self, |file| file.mapped.lock(), |_, _| {}, |_, _| {});
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
