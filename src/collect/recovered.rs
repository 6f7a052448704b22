//! Reads a tape's file as a snapshot.
#![forbid(unsafe_code)]

use std::{
    fs::File,
    io::{Read, Write},
    path::Path,
};

use crate::{
    collect::{Completed, Dialect, TapeSnapshot, collect_quietly},
    past::{PastInventory, PastTape, restore},
    process::open_plain,
    recorder::Source,
    stack,
    tape::{Contents, is_beginning, own_start},
};
use memreel_snapshot::{
    model::Snapshot,
    words::{Error, Inventory, Result},
};

/// A recording as it was when its process ended, or as it is while the process runs, read from the file of
/// [`Recording::tape`](crate::recorder::Recording::tape).
///
/// Reading changes nothing in the file and does not disturb the process. It has the newest events, up to the last one
/// whose record call has returned, with the segments and blocks at that time. Names are looked up in the files of the
/// program and its libraries, if these have not changed since they were loaded; otherwise frames are addresses, such as
/// `libfoo.so+0x1234`.
///
/// ```
/// use memreel::{Recovered, Reel, recorder::Recording};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("run.tape");
/// let reel = Reel::builder().history(Recording::all().tape(&path)).build()?;
/// let block = reel.alloc(1000)?;
/// let recovered = Recovered::read(&path)?;
/// assert_eq!(recovered.n_events(), 2, "a segment and a block were allocated");
/// assert_eq!(recovered.snapshot().segments.len(), 1);
/// # drop(block);
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Debug)]
pub struct Recovered {
    tape: PastTape,
    problems: Vec<String>,
    process: u32,
    is_closed: bool,
    is_running: bool,
    could_grow: bool,
    n_unrecorded: u64,
    failure: Option<String>,
}

/// A tape in a twentieth of its size, from which everything is read as from the tape ([`Recovered::read_and_pack`]).
#[derive(Debug)]
pub struct PackedTape(Vec<u8>);

impl PackedTape {
    /// Writes it to a file, completely or not at all. Returns when the file is on the disk, if it `is_synced`.
    ///
    /// # Errors
    /// [`Error::is_io`](crate::Error::is_io).
    pub fn save(&self, path: impl AsRef<Path>, is_synced: bool) -> Result<()> {
        let path = path.as_ref();
        let write = |file: &mut File| {
            file.write_all(&self.0)?;
            if is_synced { file.sync_all() } else { Ok(()) }
        };
        memreel_snapshot::pickle::replace(path, write)
            .map_err(|error| Error::io("cannot write the packed tape", path, error))
    }
}

/// The function names that the processes of one run share: each address of a library is looked up once for all tapes
/// that are read with the same value ([`Recovered::read_of_run`]).
#[derive(Clone, Debug, Default)]
pub struct RunNames(stack::SharedNames);

/// The process of a tape, from the tape's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TapeProcess {
    number: u32,
    /// When it started, and the namespace of its PID.
    began: (u64, u64),
    has_ended: bool,
    start_us: u64,
}

impl TapeProcess {
    /// Reads the header of a tape.
    ///
    /// # Errors
    /// The errors of [`Recovered::read`].
    pub fn of(path: impl AsRef<Path>) -> Result<TapeProcess> {
        let Contents { process, began, is_running, start_us, .. } = Contents::header(path.as_ref())?;
        // Where processes are not visible, none is known to have ended.
        let has_ended = !is_running && began.0 != 0 && own_start().is_some();
        Ok(TapeProcess { number: process, began, has_ended, start_us })
    }

    /// Returns whether the process had certainly ended when the header was read.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns when the tape started, in microseconds since the Unix epoch.
    #[must_use]
    pub fn start_us(&self) -> u64 {
        self.start_us
    }

    /// Returns whether another tape is from the same process, which then ran several programs.
    #[must_use]
    pub fn is_same(&self, other: &TapeProcess) -> bool {
        (self.number, self.began) == (other.number, other.began)
    }
}

impl Recovered {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::is_io`](crate::Error::is_io), and [`Error::is_malformed`](crate::Error::is_malformed) for a file that
    /// is not a tape, has another byte order or is of another version. A damaged or truncated tape is read as far as
    /// possible; see [`Recovered::problems`].
    pub fn read(path: impl AsRef<Path>) -> Result<Recovered> {
        Ok(Recovered::of(Contents::read(path.as_ref())?, None))
    }

    /// Reads a file of a run of several processes, which share function names.
    ///
    /// # Errors
    /// The errors of [`Recovered::read`].
    pub fn read_of_run(path: impl AsRef<Path>, names: &RunNames) -> Result<Recovered> {
        Ok(Recovered::of(Contents::read(path.as_ref())?, Some(names.0.clone())))
    }

    /// Reads a file of a run, and packs it. Nothing is packed while the process still runs
    /// (unless it is known to run another program by now), or if something is missing or broken. `failure` is how the program failed, which
    /// readers of the packed tape report.
    ///
    /// # Errors
    /// The errors of [`Recovered::read`].
    pub fn read_and_pack(
        path: impl AsRef<Path>,
        names: &RunNames,
        has_ended: bool,
        failure: Option<&str>,
    ) -> Result<(Recovered, Option<PackedTape>)> {
        let (contents, packed) = Contents::read_and_pack(path.as_ref(), has_ended, failure)?;
        Ok((Recovered::of(contents, Some(names.0.clone())), packed.map(PackedTape)))
    }

    fn of(mut contents: Contents, names: Option<stack::SharedNames>) -> Recovered {
        let tape = restore(&mut contents, names);
        if contents.n_elsewhere > 0 {
            let often = match contents.n_elsewhere {
                1 => "once".to_owned(),
                n => format!("{n} times"),
            };
            contents.problems.push(format!(
                "the file could not grow ({often}): the tape ends there, and later events are in the memory of the \
                 process at most"
            ));
        }
        if contents.n_lost > 0 {
            let events = match contents.n_lost {
                1 => "1 event was".to_owned(),
                n => format!("{n} events were"),
            };
            contents.problems.push(format!(
                "{events} not recorded: a fork took longer than two seconds, or a signal handler interrupted a record"
            ));
        }
        if contents.n_unseen > 0 {
            contents.problems.push(format!(
                "{} by `_Fork` or a system call, which memreel does not see, so what they allocated is not recorded",
                match contents.n_unseen {
                    1 => "1 child was forked".to_owned(),
                    n => format!("{n} children were forked"),
                }
            ));
        }
        tape.for_each_missing(|path, why| {
            contents.problems.push(format!("{} {why}: its frames are addresses", path.display()));
        });
        let Contents { problems, process, is_closed, is_running, n_elsewhere, n_unrecorded, failure, .. } =
            contents;
        let could_grow = n_elsewhere == 0;
        Recovered { tape, problems, process, is_closed, is_running, could_grow, n_unrecorded, failure }
    }

    /// Returns whether a file starts like a tape. `false` if it cannot be read, and for a pipe, because reading would
    /// consume its first bytes.
    #[must_use]
    pub fn is_tape(path: impl AsRef<Path>) -> bool {
        let mut start = Vec::new();
        let read = open_plain(path.as_ref()).and_then(|file| file.take(64).read_to_end(&mut start));
        read.is_ok() && is_beginning(&start)
    }

    /// Returns whether bytes are the start of a tape.
    #[must_use]
    pub fn is_beginning(bytes: &[u8]) -> bool {
        is_beginning(bytes)
    }

    /// Returns what is missing, one sentence for each problem: damaged parts, lost numbers, events that the file had no
    /// room for, binaries that are gone or have been rebuilt.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns whether the file could always grow; if not, the tape ends where it could not.
    #[must_use]
    pub fn could_grow(&self) -> bool {
        self.could_grow
    }

    /// Returns how many programs the process started that could not be recorded because it no longer had the right to
    /// write a tape.
    #[must_use]
    pub fn n_unrecorded(&self) -> u64 {
        self.n_unrecorded
    }

    /// Returns the PID of the recorded process.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Returns whether the recording ended properly: its recorder was dropped or switched off.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns whether the recorded process was still running on this machine when the file was read.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.is_running
    }

    /// Returns how many events the tape has, for all devices.
    #[must_use]
    pub fn n_events(&self) -> usize {
        let cut = |inventory: &PastInventory| self.tape.events(inventory.device()).cut();
        self.tape.inventories.iter().map(|inventory| cut(inventory).read().len()).sum()
    }

    /// Returns whether a process's heap is all that was recorded.
    #[must_use]
    pub fn is_of_heap(&self) -> bool {
        let usage = self.tape.usage();
        let Some(heap) = usage.iter().find(|of| of.is_heap()) else { return false };
        let is_used = |inventory: &PastInventory| {
            let mut has_segments = false;
            inventory.inspect(&mut |segments| has_segments = !segments.is_empty());
            has_segments || !self.tape.events(inventory.device()).cut().is_empty()
        };
        let mut others = self.tape.inventories.iter().filter(|inventory| inventory.device() != heap.device);
        !others.any(is_used) && usage.iter().all(|of| of.device == heap.device || of.reports.is_empty())
    }

    /// Returns the snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.completed().into_snapshot()
    }

    /// Returns the tape.
    pub(crate) fn tape(&self) -> &PastTape {
        &self.tape
    }

    fn completed(&self) -> Completed {
        let mut snapshot = snapshot_of(&self.tape);
        self.failure.iter().for_each(|failure| snapshot.set_program_failure(failure));
        Completed::new(snapshot)
    }

    /// Writes the snapshot to a file, completely or not at all.
    ///
    /// # Errors
    /// [`Error::is_io`](crate::Error::is_io).
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        memreel_snapshot::pickle::save(&self.completed(), path.as_ref())
    }
}

/// Returns the snapshot of a tape that was read.
pub(crate) fn snapshot_of(tape: &PastTape) -> TapeSnapshot {
    collect_quietly(tape, &tape.inventories, Dialect::default())
}
