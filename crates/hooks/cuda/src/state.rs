//! The recording of this process: one recorder, a ledger for each GPU, and one for the host's pinned memory.
#![forbid(unsafe_code)]

use std::{
    cell::Cell,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::Duration,
};

use memreel::{
    DeviceId, Result,
    integrate::{
        self, FileSpace, Inventory, MallocReports, MarkedFrames, Refusal, Session, Uncancelled, own_memory,
    },
    ledger::Ledger,
    pickle,
    recorder::{Recorder, Recording, StackKind},
    snapshot::{self, Dialect},
};
use once_cell::race::OnceBox;

use super::{
    addresses, cleaned, driver::driver, gpu::Gpu, intervals, nested, notice, python, run, totals::Totals,
};

/// The most GPUs of a process.
pub(crate) const MAX_GPUS: usize = 64;

/// The number of kept events per device, unless another number is requested: 128 MB of a tape.
const MAX_ENTRIES: usize = 4_000_000;

/// The recorder of this process, and what reports to it.
#[derive(Debug)]
pub(crate) struct State {
    session: Session,
    gpus: [OnceBox<Gpu>; MAX_GPUS],
    pinned: OnceBox<Ledger>,
    heap: OnceBox<MallocReports>,
    /// The number of the device after the GPUs: the process's heap. Pinned memory has the next one.
    n_gpus: u16,
    pub(crate) totals: Totals,
}

static STATE: OnceBox<State> = OnceBox::new();

/// How long a thread waits for another one that starts the recording: 200 ms in all.
const WAIT: Duration = Duration::from_millis(1);
const MAX_WAITS: u32 = 200;

thread_local! {
    static IS_RECORDING: Cell<bool> = const { Cell::new(false) };
}

/// Whether nothing is recorded: this library has failed, or the program ends. Relaxed: a thread that reads it late records
/// a little more.
static IS_OFF: AtomicBool = AtomicBool::new(false);

/// Whether this process is a child of `fork` that has not recorded yet. Relaxed: it is set while the child has one thread.
static IS_FORKED: AtomicBool = AtomicBool::new(false);

/// Whether a thread of the child is starting its recording.
static IS_BEGINNING: AtomicBool = AtomicBool::new(false);

/// Returns the state, which the first call creates; `None` if recording is off.
#[inline]
pub(crate) fn state() -> Option<&'static State> {
    if IS_OFF.load(Ordering::Relaxed) {
        return None;
    }
    match STATE.get() {
        Some(state) if IS_FORKED.load(Ordering::Relaxed) => begin_again(state),
        Some(state) => Some(state),
        None => open(),
    }
}

/// Runs code that records a call. A failure of this library ends the recording, not the program.
#[inline]
pub(crate) fn record<T>(work: impl FnOnce(&'static State) -> T) -> Option<T> {
    let was_recording = IS_RECORDING.try_with(|is_recording| is_recording.replace(true)).unwrap_or(true);
    let recorded = caught(work);
    let _ = IS_RECORDING.try_with(|is_recording| is_recording.set(was_recording));
    recorded
}

/// Runs what records a call that may come from within [`record`]: then `nested` alone is run, and also while the thread's
/// storage is destroyed. Returns what either does; nothing if recording is off. Otherwise like [`record`].
#[inline]
pub(crate) fn record_unless<T: Default>(
    nested: impl FnOnce() -> T,
    work: impl FnOnce(&'static State) -> T,
) -> T {
    // The storage is accessed once, which in a library is a call of the loader.
    let recorded = IS_RECORDING.try_with(|is_recording| {
        if is_recording.replace(true) {
            return None;
        }
        let recorded = caught(work);
        is_recording.set(false);
        Some(recorded.unwrap_or_default())
    });
    recorded.ok().flatten().unwrap_or_else(nested)
}

#[inline]
fn caught<T>(work: impl FnOnce(&'static State) -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(|| state().map(work))).unwrap_or_else(|_| {
        switch_off();
        notice::print("memreel has a bug: it panicked and stops recording; the program continues");
        None
    })
}

/// Returns whether this thread is in [`record`]: what it allocates on the heap is not the program's. Also `true` while the
/// thread's storage is destroyed.
#[inline]
pub(crate) fn is_recording() -> bool {
    IS_RECORDING.try_with(Cell::get).unwrap_or(true)
}

/// Sets whether this thread works for memreel, as in [`record`], outside this library; returns whether it did. For as long, what
/// it allocates is memreel's own memory, and what it frees is not looked up.
pub(crate) fn set_own_work(is_own: bool) -> bool {
    IS_RECORDING.try_with(|is_recording| is_recording.replace(is_own)).unwrap_or(true)
}

/// Ends the recording.
pub(crate) fn switch_off() {
    IS_OFF.store(true, Ordering::Relaxed);
}

/// Waits briefly for another thread, or until nothing is recorded.
fn wait_until(is_done: impl Fn() -> bool) {
    for _ in 0..MAX_WAITS {
        thread::sleep(WAIT);
        if is_done() || IS_OFF.load(Ordering::Relaxed) {
            break;
        }
    }
}

/// Creates the state. Other threads wait briefly, and then do without: what they wait for may need what they have.
#[cold]
fn open() -> Option<&'static State> {
    static IS_OPENING: AtomicBool = AtomicBool::new(false);
    let _uncancelled = Uncancelled::begin();
    if IS_OPENING.swap(true, Ordering::Acquire) {
        wait_until(|| STATE.get().is_some());
        return STATE.get();
    }
    if !has_room() {
        switch_off();
        return None;
    }
    let state = State::open();
    leave_without_tape(&state);
    _ = STATE.set(Box::new(state));
    STATE.get()
}

/// Returns whether this process should have a tape in the folder of the run: not if the run has ended and its folder is
/// gone, nor if too many tapes are there.
fn has_room() -> bool {
    let Some(folder) = integrate::variable("MEMREEL_RECORD") else { return true };
    Path::new(&folder).is_dir() && FileSpace::of(&folder).wait()
}

/// Makes the programs that this process starts run unrecorded, if it may not write a tape: neither may they, and each
/// would print its own line.
fn leave_without_tape(state: &State) {
    if integrate::variable("MEMREEL_RECORD").is_some() && state.recorder().tape().is_none() {
        run::leave();
        cleaned::clean_if_alone();
    }
}

/// Records in a child of `fork`, which has left its parent's tape, on its own tape. Other threads wait as in [`open`].
/// `None` while this thread forks, and in a child whose locks are not consistent.
#[cold]
fn begin_again(state: &'static State) -> Option<&'static State> {
    if !integrate::may_record() || !is_own_process() {
        return None;
    }
    let _uncancelled = Uncancelled::begin();
    if IS_BEGINNING.swap(true, Ordering::Acquire) {
        wait_until(|| !IS_FORKED.load(Ordering::Acquire));
        return Some(state);
    }
    nested::forget_others();
    intervals::end();
    addresses::forget();
    state.gpus().for_each(|gpu| gpu.alive().forget_look());
    match has_room() {
        true => state.session.record_history(&history()),
        false => switch_off(),
    }
    IS_FORKED.store(false, Ordering::Release);
    Some(state)
}

/// The process that has this memory. A child of `vfork` is another one, and has its parent's. Relaxed: it is written while
/// there is one thread.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Returns whether this is that process, or none records yet.
pub(crate) fn is_own_process() -> bool {
    let process = PROCESS.load(Ordering::Relaxed);
    process == 0 || process == std::process::id()
}

/// Records that this process is a child, which has one thread.
fn in_child() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    IS_BEGINNING.store(false, Ordering::Relaxed);
    IS_FORKED.store(true, Ordering::Relaxed);
}

/// Returns whether this is a child of `fork` that has not recorded yet.
pub(crate) fn is_forked() -> bool {
    IS_FORKED.load(Ordering::Relaxed)
}

/// Everything is recorded, with stacks of both kinds, unless the variable `MEMREEL` says otherwise; of the heap, whose frees
/// are many, at allocations alone. For `memreel record` on a tape, which that process keeps; without it, there would be no
/// snapshot but those that the user asked this process for.
fn history() -> Recording {
    let tape = integrate::variable("MEMREEL_RECORD").and_then(integrate::take_tape_name);
    let history = Recording::all().stacks(StackKind::All).max_entries(MAX_ENTRIES).without_heap_free_stacks();
    match tape {
        Some(tape) if has_dumps() => history.tape(tape).kept_elsewhere(),
        Some(tape) => history.tape(tape).kept_elsewhere().on_tape_alone(),
        None => history,
    }
}

/// Returns whether this process may write snapshots itself.
fn has_dumps() -> bool {
    let items = integrate::variable("MEMREEL").unwrap_or_default();
    items.to_string_lossy().split(',').any(|item| item.trim_start().starts_with("dump="))
}

impl State {
    fn open() -> State {
        let levels = || STATE.get().map(|state| state.totals.get()).unwrap_or_default();
        let session = Session::open(&history(), dump, levels);
        session.recorder().set_frame_source(MarkedFrames::new(Some(python::frames())));
        python::report();
        PROCESS.store(std::process::id(), Ordering::Relaxed);
        integrate::call_in_children(in_child);
        State {
            session,
            gpus: [const { OnceBox::new() }; MAX_GPUS],
            pinned: OnceBox::new(),
            heap: OnceBox::new(),
            n_gpus: n_gpus(),
            totals: Totals::default(),
        }
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        self.session.recorder()
    }

    /// The process's heap, which the first call makes a device.
    pub(crate) fn heap(&self) -> Option<MallocReports> {
        let heap = MallocReports::connect(self.recorder(), self.heap_device())?;
        let _ = self.heap.set(Box::new(heap));
        Some(heap)
    }

    pub(crate) fn heap_device(&self) -> DeviceId {
        DeviceId::from(self.n_gpus)
    }

    /// Returns whether the process's heap is recorded.
    pub(crate) fn has_heap(&self) -> bool {
        self.heap.get().is_some()
    }

    /// Records a request that the device refused, and explains it.
    pub(crate) fn refused(&self, gpu: &Gpu, refusal: Refusal) {
        gpu.ledger().oom(refusal);
        let _explained = self.session.refused(gpu.ledger(), refusal, &dump);
    }

    /// The GPU of this thread's context.
    #[inline]
    pub(crate) fn current_gpu(&self) -> Option<&Gpu> {
        self.gpu(driver()?.current_device()?)
    }

    /// Returns the GPU with a number, which the first call registers.
    #[inline]
    pub(crate) fn gpu(&self, device: i32) -> Option<&Gpu> {
        let place = self.gpus.get(usize::try_from(device).ok()?)?;
        Some(place.get_or_init(|| Box::new(Gpu::new(device, self.recorder()))))
    }

    /// The GPUs that were used.
    pub(crate) fn gpus(&self) -> impl Iterator<Item = &Gpu> {
        self.gpus.iter().filter_map(OnceBox::get)
    }

    /// Returns the host memory that devices can use: allocated by the driver, or registered by programs.
    pub(crate) fn pinned(&self) -> &Ledger {
        let device = DeviceId::from(self.n_gpus + 1);
        self.pinned.get_or_init(|| {
            self.recorder().describe_device(device, "pinned host memory", "");
            Box::new(self.recorder().ledger(device))
        })
    }

    /// Writes a snapshot of all devices.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        if self.has_heap() {
            // A look opens files, as the snapshot does, and is made for nothing else: a program may have forbidden itself that.
            // After an error there is no such table.
            let _ = self.recorder().report_resident(self.heap_device(), own_memory::bytes());
        }
        let of_gpus = self.gpus().map(|gpu| gpu.ledger() as &dyn Inventory);
        let pinned = self.pinned.get().map(|pinned| pinned as &dyn Inventory);
        let heap = self.heap.get().map(|heap| heap.inventory());
        let all = of_gpus.chain(pinned).chain(heap);
        pickle::save(&snapshot::collect_lazily(self.recorder(), all, Dialect::default()), path)
    }
}

/// Writes a snapshot that a trigger asks for.
fn dump(path: &Path) -> Result<()> {
    // A trigger may be faster than the state is made.
    STATE.get().map_or(Ok(()), |state| state.save(path))
}

/// Returns the number of GPUs, at least 1: the numbers after theirs are those of host memory.
fn n_gpus() -> u16 {
    let of_driver = driver().and_then(|driver| driver.n_devices()).and_then(|n| u16::try_from(n).ok());
    let of_system = || fs::read_dir("/proc/driver/nvidia/gpus").map_or(0, |gpus| gpus.count());
    let n = of_driver.unwrap_or_else(|| u16::try_from(of_system()).unwrap_or(0));
    n.clamp(1, MAX_GPUS as u16)
}
