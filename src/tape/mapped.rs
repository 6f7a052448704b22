//! A file in memory: mapped, and extended in steps of slots.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    ptr::NonNull,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use rustix::{
    fs::{FallocateFlags, IFlags, fallocate, ioctl_getflags, ioctl_setflags},
    io::Errno,
    process::{Resource, getrlimit},
};

use super::{
    cut,
    descriptor::{Descriptor, out_of_the_way},
    layout::{
        BYTE_ORDER, Beginning, DEVICES_AT, DeviceWord, HEADER_BYTES, HeaderWord, MAGIC, N_DEVICE_WORDS,
        SLOT_BYTES, STEP_BYTES, VERSION, checksum,
    },
    owner_process::{folder_of, own_start, pid_namespace},
    pages::{map, unmap},
    source::Memory,
    steps::{Slots, Step},
    windows::Windows,
};
use crate::process::{counters, notice, own_maps, own_memory, uncancelled::Uncancelled};
use memreel_snapshot::{
    place::Folder,
    words::{DeviceId, Error, Result},
};

/// The most steps that a keeper reserves ahead: 32 MiB.
const MOST_AHEAD: u64 = 16;

/// A tape's file as memory. It is open until the recording ends; in a child of `fork` it is closed from the start.
#[derive(Debug)]
pub(super) struct Mapped {
    file: Descriptor,
    path: PathBuf,
    header: NonNull<u8>,
    /// Whether another process records into it.
    is_others: bool,
    /// Whether slots may be taken and freed.
    is_open: AtomicBool,
    /// Whether it was reported that the file cannot grow; in a keeper, whether it has stopped extending it. Relaxed:
    /// nothing else is read because of it.
    is_reported: AtomicBool,
    /// Whether nothing is recorded without the file. Relaxed: it is set before anything is recorded.
    is_alone: AtomicBool,
    slots: Mutex<Slots>,
}

// SAFETY: `header` is a mapping that lives as long as the value, and all accesses to it are atomic.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Creates the file of a tape. An existing file is renamed, with `.old` appended: it may be the tape of a run that
    /// crashed. An empty file is a name that was reserved for this tape.
    ///
    /// # Errors
    /// [`Error::is_io`].
    pub(super) fn create(path: &Path, beginning: Beginning) -> Result<Mapped> {
        let failed = |error: io::Error| Error::io("cannot create", path, error);
        let (folder, name) = Folder::above(path).map_err(failed)?;
        let taken = folder.taken(&name).map_err(failed)?;
        let is_taken = taken.is_some();
        let new = || {
            let mut old = name.clone();
            old.push(".old");
            // A folder is left alone: its contents are not memreel's.
            folder.set_aside(&name, old)?;
            folder.create(&name, 0o600)
        };
        let file = taken.map_or_else(new, Ok).map_err(failed)?;
        let file = out_of_the_way(file).map_err(failed)?;
        write_in_place(&file);
        let header = reserve(&file, 0, HEADER_BYTES).and_then(|()| map(&file, 0, HEADER_BYTES, None));
        // An empty file would replace the tape that was here, and its name at the next attempt. A name that was
        // reserved for this tape shows that there was meant to be one.
        let give_up = |_: &io::Error| _ = if is_taken { file.set_len(0) } else { folder.remove(&name) };
        let header = header.inspect_err(give_up).map_err(failed)?;
        let tape = Mapped {
            file: Descriptor::own(file).map_err(failed)?,
            path: path.to_owned(),
            header,
            is_others: false,
            is_open: AtomicBool::new(true),
            is_reported: AtomicBool::new(false),
            is_alone: AtomicBool::new(false),
            slots: Mutex::default(),
        };
        tape.write_header(beginning);
        counters::UNSEEN.count_in(tape.word(HeaderWord::NUnseen));
        counters::LOST.count_in(tape.word(HeaderWord::NElsewhere));
        Ok(tape)
    }

    /// Opens the tape of another process, whose header has been read.
    ///
    /// # Errors
    /// [`Error::is_io`].
    pub(super) fn attach(path: &Path) -> Result<Mapped> {
        let failed = |error: io::Error| Error::io("cannot keep the tape", path, error);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        let header = map(&file, 0, HEADER_BYTES, None).map_err(failed)?;
        Ok(Mapped {
            // A keeper of many tapes must not need a descriptor for each.
            file: Descriptor::closed(&file).map_err(failed)?,
            path: path.to_owned(),
            header,
            is_others: true,
            is_open: AtomicBool::new(true),
            is_reported: AtomicBool::new(false),
            is_alone: AtomicBool::new(false),
            slots: Mutex::default(),
        })
    }

    pub(super) fn set_alone(&self) {
        self.is_alone.store(true, Ordering::Relaxed);
    }

    /// Calls `work` with the file, opening it if it is not open.
    ///
    /// # Errors
    /// The errors of `work`, and [`Error::is_io`].
    pub(super) fn with_file<T>(&self, work: impl FnOnce(&File) -> Result<T>) -> Result<T> {
        let done = self.file.with(&self.path, |file| Ok(work(file)));
        done.map_err(|error| Error::io("cannot read the tape", &self.path, error))?
    }

    fn write_header(&self, Beginning { start_us, ns_of_ticks }: Beginning) {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let words = [
            (HeaderWord::Version, pair(VERSION, BYTE_ORDER)),
            (HeaderWord::Slot, pair(SLOT_BYTES as u32, std::process::id())),
            (HeaderWord::StartUs, start_us),
            (HeaderWord::NsOfTicks, ns_of_ticks),
            (HeaderWord::ProcessStart, own_start().unwrap_or(0)),
        ];
        let mut bytes = MAGIC.to_vec();
        // Relaxed: the release of the magic number, which comes last, makes them visible.
        for (word, value) in words {
            self.word(word).store(value, Ordering::Relaxed);
            bytes.extend(value.to_ne_bytes());
        }
        self.word(HeaderWord::Checksum).store(checksum(&bytes), Ordering::Relaxed);
        self.word(HeaderWord::PidNamespace).store(pid_namespace(), Ordering::Relaxed);
        self.word(HeaderWord::OwnMaps).store(own_maps::address(), Ordering::Relaxed);
        for (at, part) in MAGIC.chunks_exact(8).enumerate() {
            let word = u64::from_ne_bytes(part.try_into().unwrap_or_default());
            self.word_at(at).store(word, Ordering::Release);
        }
    }

    fn word(&self, word: HeaderWord) -> &AtomicU64 {
        self.word_at(word as usize)
    }

    /// Returns a word of the header.
    fn word_at(&self, at: usize) -> &AtomicU64 {
        assert!(at < HEADER_BYTES / 8, "within the header");
        // SAFETY: the header is a mapped page, which lives as long as `self`; all accesses are atomic.
        unsafe { self.header.cast::<AtomicU64>().add(at).as_ref() }
    }

    /// Returns a word of a device, by its index among the devices.
    pub(super) fn device_word(&self, place: usize, word: DeviceWord) -> &AtomicU64 {
        self.word_at(DEVICES_AT + N_DEVICE_WORDS * place + word as usize)
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether slots are taken and freed: not after [`Mapped::close`], and not in a child of `fork`.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Ends the recording of the recording process: the file keeps its contents, whatever is dropped from now on.
    pub(super) fn close(&self) {
        if self.is_open.swap(false, Ordering::AcqRel) && !self.is_others {
            self.word(HeaderWord::IsClosed).store(1, Ordering::Release);
        }
    }

    /// Leaves the file to the parent process.
    pub(super) fn leave(&self) {
        self.is_open.store(false, Ordering::Release);
    }

    /// Returns whether another program made the file shorter than this process or the recording process had made it.
    pub(super) fn is_cut(&self) -> bool {
        // Relaxed: the bytes of a step are there before it is promised.
        let n_promised = self.word(HeaderWord::NPromised).load(Ordering::Relaxed);
        let is_short = || std::fs::metadata(&self.path).is_ok_and(|found| found.len() < step_at(n_promised));
        // The words may be read after the file's end, so this comes first.
        let is_blank = self.word_at(0).load(Ordering::Relaxed) == 0;
        is_blank || cut::is_cut(self.header) || is_short()
    }

    /// Returns the lock of the slots, which a fork holds.
    pub(super) fn lock(&self) -> &Mutex<Slots> {
        &self.slots
    }

    pub(super) fn next_use(&self) -> u64 {
        // Relaxed: an exchange returns more than every one that happened before it.
        self.word(HeaderWord::NextUse).fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Takes a slot: returns its number, its memory, and whether that has been zeros since the file grew. `None` if the
    /// file is closed or cannot grow, which is reported once.
    pub(super) fn take(&self) -> Option<(u32, NonNull<u8>, bool)> {
        if !self.is_open() {
            return None;
        }
        if cut::is_cut(self.header) {
            self.close();
            self.report(&io::Error::other("another program made it shorter"));
            return None;
        }
        if !self.is_others {
            // Relaxed: one word, which agrees with no other.
            self.word(HeaderWord::Heap).store(own_memory::word(), Ordering::Relaxed);
        }
        let mut slots = lock(&self.slots);
        if let Some((number, at)) = slots.reused() {
            return Some((number, at, false));
        }
        if slots.are_used() {
            // This may be inside the program's `malloc`, in which no thread may end.
            let _uncancelled = Uncancelled::begin();
            match self.grow(&mut slots.windows) {
                Ok(step) => slots.add(step),
                Err(error) => {
                    drop(slots);
                    // A keeper's list remains as it was; the recording process does its own reporting.
                    if !self.is_others {
                        // Relaxed: a count.
                        self.word(HeaderWord::NElsewhere).fetch_add(1, Ordering::Relaxed);
                    }
                    self.report(&error);
                    return None;
                }
            }
        }
        let (number, at) = slots.fresh()?;
        Some((number, at, true))
    }

    /// Adds a step to the file, whose bytes the file system has reserved, so that writing to it cannot fail. Another
    /// process may add steps too. A step that the other process reserved is taken without a system call if a window has
    /// it.
    #[allow(clippy::cast_possible_truncation)] // The number of steps fits into memory.
    fn grow(&self, windows: &mut Windows) -> io::Result<Step> {
        let n_steps = self.word(HeaderWord::NSteps);
        // Relaxed, also where it is given back: the number assigns places, and the steps are in the windows, under a
        // lock.
        let place = n_steps.fetch_add(1, Ordering::Relaxed);
        let is_promised = place < self.word(HeaderWord::NPromised).load(Ordering::Acquire);
        let window = windows.step(place as usize);
        let at = step_at(place);
        let grown = match window.filter(|_| is_promised) {
            Some(memory) => Ok(memory),
            None => self.file.with(&self.path, |file| {
                reserve(file, at, STEP_BYTES)?;
                window.map_or_else(|| map(file, at, STEP_BYTES, Some(self.header)), Ok)
            }),
        };
        // Before a step of another process it remains a hole, which readers take for free slots.
        let give_back = |_: &io::Error| {
            let _ = n_steps.compare_exchange(place + 1, place, Ordering::Relaxed, Ordering::Relaxed);
        };
        let at = grown.inspect_err(give_back)?;
        Ok(Step { at, place: place as usize, is_alone: window.is_none() })
    }

    /// Returns what the recording process has mapped of its file.
    #[allow(clippy::cast_possible_truncation)] // The number of steps fits into memory.
    pub(super) fn memory(&self) -> Memory<'_> {
        let [n_promised, n_steps] = [HeaderWord::NPromised, HeaderWord::NSteps]
            .map(|word| self.word(word).load(Ordering::Acquire) as usize);
        let slots = lock(&self.slots);
        // Whether the file already has other steps is not known: reading one that it lacks would raise a signal.
        let promised = |place: &usize| slots.windows.find(*place).filter(|_| *place < n_promised);
        let steps = (0..n_steps).map(|place| slots.step(place).or_else(|| promised(&place)));
        // SAFETY: steps and windows are unmapped when this is dropped.
        unsafe { Memory::of(steps.collect()) }
    }

    /// Maps the first steps before the file has them: another process will reserve them. Without room for that in
    /// memory, steps are mapped one by one.
    pub(super) fn map_ahead(&self) {
        let _ = self.file.with(&self.path, |file| lock(&self.slots).windows.open(file, self.header));
    }

    /// Reserves the next steps for the recording process. If the file system refuses, that process reserves them
    /// itself.
    pub(super) fn promise(&self) {
        let [n_steps, promised] = [HeaderWord::NSteps, HeaderWord::NPromised].map(|word| self.word(word));
        // Relaxed: this keeper alone stores what is promised, and an old number of steps promises fewer. A tape that was closed
        // a moment ago only gets a step too many.
        let (n_used, from) = (n_steps.load(Ordering::Relaxed), promised.load(Ordering::Relaxed));
        let wanted = n_used.saturating_add(n_used.clamp(1, MOST_AHEAD));
        let is_over = self.word(HeaderWord::IsClosed).load(Ordering::Relaxed) != 0;
        if is_over || wanted <= from || self.is_reported.load(Ordering::Relaxed) {
            return;
        }
        // Many short processes end before the keeper finds them.
        if self.process_folder().is_none() {
            return self.is_reported.store(true, Ordering::Relaxed);
        }
        // Steps that were reserved before are unchanged. Zeros must not be written here, because the other process may
        // have started to use them.
        let reserved = self.file.with(&self.path, |file| {
            // The other process may write anything into the header.
            let until = wanted.min(n_steps_in(file.metadata()?.len()) + MOST_AHEAD);
            let (at, end) = (step_at(from), step_at(until));
            check_limit(end)?;
            fallocate(file, FallocateFlags::empty(), at, end.saturating_sub(at))?;
            Ok(until)
        });
        match reserved {
            Ok(until) => promised.store(until, Ordering::Release),
            Err(_) => self.is_reported.store(true, Ordering::Relaxed),
        }
    }

    /// Returns which device is the heap of the recording process, and the recorder's share of it.
    pub(super) fn heap(&self) -> Option<(DeviceId, u64)> {
        // Relaxed: as where it is stored.
        own_memory::of_word(self.word(HeaderWord::Heap).load(Ordering::Relaxed))
    }

    /// Returns the address of the recording process's table of the recorder's own mappings.
    pub(super) fn own_maps(&self) -> u64 {
        // Relaxed: as when the recording began.
        self.word(HeaderWord::OwnMaps).load(Ordering::Relaxed)
    }

    /// Returns when the recording started, and the length of a tick. Relaxed: `create` wrote it before anything else of
    /// this process, or another process did before its header was read.
    pub(super) fn beginning(&self) -> Beginning {
        let word = |word| self.word(word).load(Ordering::Relaxed);
        Beginning { start_us: word(HeaderWord::StartUs), ns_of_ticks: word(HeaderWord::NsOfTicks) }
    }

    /// Returns the folder in `/proc` of the recording process, if it is running. Relaxed: as for [`Mapped::beginning`].
    #[allow(clippy::cast_possible_truncation)] // The number of a process is in the upper half.
    pub(super) fn process_folder(&self) -> Option<PathBuf> {
        let word = |word| self.word(word).load(Ordering::Relaxed);
        let process = (word(HeaderWord::Slot) >> 32) as u32;
        folder_of(process, word(HeaderWord::ProcessStart), word(HeaderWord::PidNamespace))
    }

    #[cold]
    fn report(&self, error: &io::Error) {
        if !self.is_others && !self.is_reported.swap(true, Ordering::Relaxed) {
            let rest = match self.is_alone.load(Ordering::Relaxed) {
                true => "the recording of this process ends here",
                false => "recording continues in memory, where a crash loses it",
            };
            notice::print(&format!("the tape {} cannot grow ({error}); {rest}", self.path.display()));
        }
    }

    pub(super) fn take_back(&self, number: u32) {
        lock(&self.slots).take_back(number);
    }
}

/// Asks the file system to overwrite data in place. Where it makes copies instead, as btrfs does once there is a
/// snapshot of the file, a copy needs room that [`reserve`] was not promised, and without it the process gets SIGBUS.
fn write_in_place(file: &File) {
    // Other file systems refuse this, and do not need it.
    if let Ok(flags) = ioctl_getflags(file) {
        let _ = ioctl_setflags(file, flags | IFlags::NOCOW);
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.close();
        counters::UNSEEN.forget(self.word(HeaderWord::NUnseen));
        counters::LOST.forget(self.word(HeaderWord::NElsewhere));
        let slots = self.slots.get_mut().unwrap_or_else(PoisonError::into_inner);
        for at in slots.end() {
            // SAFETY: mapped by `grow`; every slot keeps the file alive, so none is left.
            unsafe { unmap(at, STEP_BYTES) };
        }
        // SAFETY: mapped by `create`, and used through `self` alone.
        unsafe { unmap(self.header, HEADER_BYTES) };
    }
}

/// Returns the offset of a step in the file.
fn step_at(place: u64) -> u64 {
    HEADER_BYTES as u64 + place * STEP_BYTES as u64
}

/// Returns how many steps fit into a length in bytes.
fn n_steps_in(n_bytes: u64) -> u64 {
    n_bytes.saturating_sub(HEADER_BYTES as u64) / STEP_BYTES as u64
}

/// Returns an error if a file of this length would exceed the limit: the kernel would send a signal that ends the
/// process.
fn check_limit(end: u64) -> io::Result<()> {
    match getrlimit(Resource::Fsize).current {
        Some(most) if end > most => Err(io::Error::other("the limit of file sizes, ulimit -f, is reached")),
        _ => Ok(()),
    }
}

/// Extends the file with reserved bytes.
fn reserve(file: &File, at: u64, n_bytes: usize) -> io::Result<()> {
    check_limit(at + n_bytes as u64)?;
    match fallocate(file, FallocateFlags::empty(), at, n_bytes as u64) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            let zeros = vec![0; n_bytes];
            file.write_all_at(&zeros, at)
        }
        Err(error) => Err(error.into()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
