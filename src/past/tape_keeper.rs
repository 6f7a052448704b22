//! Keeps the tape of another process: a thread in a recorded program could be seen by it.
#![forbid(unsafe_code)]

use std::{path::Path, sync::Arc};

use super::{
    outside::Onlooker,
    recovered::{Notes, chunk_of, contexts_of, scale},
};
use crate::{
    recorder::{Chunk, Cut, LiveState, Log, LogTables, in_file, log},
    tape::{Agreement, Contents, Slot, TapeFile, seal},
};
use memreel_lockfree::events::Words;
use memreel_snapshot::words::Result;

/// Keeps the list of live blocks in the tape of another process, which records with
/// [`Recording::kept_elsewhere`](crate::recorder::Recording::kept_elsewhere).
///
/// The ring of a recording drops its oldest events. What is live before the others is in the tape as a list, and an event
/// leaves the file only when the list has it. When the keeper is dropped or its process is killed, the recording process
/// goes on with the list that is there.
///
/// ```
/// use memreel::{Recovered, Reel, TapeKeeper, recorder::Recording};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("run.tape");
/// // In the process that records:
/// let reel = Reel::builder().history(Recording::all().tape(&path).kept_elsewhere()).build()?;
/// let weights = reel.alloc(1 << 20)?;
/// // In another process, some times a second:
/// let mut keeper = TapeKeeper::attach(&path)?;
/// keeper.keep();
/// # drop((keeper, weights));
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Debug)]
pub struct TapeKeeper {
    file: Arc<TapeFile>,
    devices: Vec<KeptList>,
    has_space_maker: bool,
    is_cut: bool,
}

/// Makes a tape longer ahead of the process that records, beside a keeper whose lists take long.
#[derive(Debug)]
pub struct SpaceMaker(Arc<TapeFile>);

impl SpaceMaker {
    /// Makes the file longer if the process is near its end.
    pub fn make_space(&self) {
        self.0.promise();
    }
}

/// A device's list.
#[derive(Debug)]
struct KeptList {
    agreement: Agreement,
    /// The recorder's list that this one follows from; 0 before the first.
    begun: u64,
    live: LiveState,
    /// The order word up to which `live` has the events, and the one up to which the file's list has them.
    folded: u64,
    written: u64,
    /// The slots of the last list.
    base: Vec<Slot>,
}

impl TapeKeeper {
    /// Opens the tape of a process that records.
    ///
    /// # Errors
    /// [`Error::is_io`](crate::Error::is_io), and [`Error::is_malformed`](crate::Error::is_malformed) if it is not a tape
    /// of this version, or is one that was not written whole yet.
    pub fn attach(path: impl AsRef<Path>) -> Result<TapeKeeper> {
        Ok(TapeKeeper {
            file: Arc::new(TapeFile::attach(path.as_ref())?),
            devices: Vec::new(),
            has_space_maker: false,
            is_cut: false,
        })
    }

    /// Folds what is due; returns whether there was something. Makes the file longer ahead of the process that records, which
    /// then needs no call of the system to take more of it, unless a [`SpaceMaker`] does. A file that cannot be read or cannot grow is tried again at
    /// the next call.
    pub fn keep(&mut self) -> bool {
        if self.is_cut_short() {
            return false;
        }
        if !self.has_space_maker {
            self.file.promise();
        }
        let all = self.file.agreements();
        let new = all.into_iter().skip(self.devices.len());
        self.devices.extend(new.map(KeptList::new));
        let mut has_folded = false;
        for device in &mut self.devices {
            has_folded |= device.keep(&self.file).is_some();
        }
        has_folded
    }

    /// Returns whether another program made the file shorter: what was behind its end is lost, and nothing is written into it
    /// any more.
    pub fn is_cut_short(&mut self) -> bool {
        self.is_cut = self.is_cut || self.file.is_cut();
        self.is_cut
    }

    /// Returns what makes the file longer in place of this keeper, from another thread.
    #[must_use]
    pub fn space_maker(&mut self) -> SpaceMaker {
        self.has_space_maker = true;
        SpaceMaker(self.file.clone())
    }

    /// Returns what looks at the resident memory of the process. It writes into the tape while this keeper has it.
    #[must_use]
    pub fn onlooker(&self) -> Onlooker {
        Onlooker::of(&self.file)
    }

    /// Gives the chunks of a tape whose process has ended the checksums that a keeper in that process would have written.
    ///
    /// # Errors
    /// [`Error::is_io`](crate::Error::is_io), and [`Error::is_malformed`](crate::Error::is_malformed) if it is not a tape
    /// of this version.
    pub fn seal(path: impl AsRef<Path>) -> Result<()> {
        seal(path.as_ref())
    }
}

impl Drop for TapeKeeper {
    /// The lists stay in the file.
    fn drop(&mut self) {
        self.file.leave();
    }
}

impl KeptList {
    fn new(agreement: Agreement) -> KeptList {
        KeptList { agreement, begun: 0, live: LiveState::default(), folded: 0, written: 0, base: Vec::new() }
    }

    /// Folds the events that are due, if there are any.
    fn keep(&mut self, file: &Arc<TapeFile>) -> Option<()> {
        let due = self.agreement.due();
        if due <= self.written {
            return None;
        }
        let begun = self.agreement.begun();
        if due > self.folded || begun != self.begun {
            let mut contents = file.read_until(self.agreement.device(), due).ok()?;
            if begun != self.begun {
                self.begin(&mut contents, begun);
            }
            self.apply(&mut contents, due);
        }
        let (until, segments, sums) = (self.folded, self.live.inventory(), self.live.sums());
        let slots = in_file::write(file, self.agreement.device(), (&segments, &sums), (until, until), 0)?;
        self.written = until;
        // A list of the recorder's that began meanwhile is later, and readers take that.
        if self.agreement.begun() == begun {
            self.agreement.set_folded(until, slots.len());
            self.base = slots;
        }
        Some(())
    }

    /// Begins with the last list in the file.
    fn begin(&mut self, contents: &mut Contents, begun: u64) {
        let base = std::mem::take(&mut contents.bases).into_iter().next();
        self.folded = base.as_ref().map_or(0, |base| base.until);
        self.live =
            base.map_or_else(LiveState::default, |base| LiveState::of_run(&base.segments, &base.sums));
        self.begun = begun;
    }

    /// Applies the events up to `due` to the list.
    fn apply(&mut self, contents: &mut Contents, due: u64) {
        let notes = Notes::of(std::mem::take(&mut contents.notes));
        let contexts = contexts_of(notes.contexts, &mut contents.problems);
        let tables = LogTables { contexts, scale: scale(contents) };
        let known = |words: &Words| log::known(*words, tables.n_contexts(), usize::MAX);
        let chunks: Vec<Arc<Chunk>> =
            contents.chunks.iter().map(|chunk| Arc::new(chunk_of(chunk.events.iter().map(known)))).collect();
        let cut = Cut { until: due, ..Cut::whole(&chunks, self.folded) };
        self.live.apply_all(Log::of(cut).entries(&tables).map(|entry| (entry.event, entry.time_us)));
        self.folded = self.folded.max(due);
    }
}
