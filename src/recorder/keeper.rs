//! The keeper of a tape's file: it gives full chunks checksums, and applies the events that the ring has dropped to the
//! list of live blocks.
//!
//! In a program with several threads it is one more, which blocks all signals. A program with one thread keeps it: a
//! second would change what `fork` warns of and what `unshare` permits. There the thread that fills a chunk does the
//! work. A tape that another process keeps ([`TapeKeeper`](super::TapeKeeper)) has no thread here either.
#![forbid(unsafe_code)]

use std::{
    fs,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
};

use super::{
    in_file::{self, Start, Work},
    live::Live,
    log::LogTables,
    shared::Shared,
    tape::Tape,
};
use crate::{
    process::{guard::Guard, mask::Blocked, sync::lock},
    tape::{Contents, TapeFile},
};

/// The keeper of a recorder's file.
#[derive(Debug)]
pub(crate) struct Keeper {
    shared: Weak<Shared>,
    file: Arc<TapeFile>,
    /// Whether another process keeps the file, as long as it follows.
    is_elsewhere: bool,
    is_started: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Keeper {
    /// Returns the keeper of a file, which is not at work yet. `is_elsewhere` if another process keeps it.
    pub(super) fn new(shared: &Arc<Shared>, file: &Arc<TapeFile>, is_elsewhere: bool) -> Arc<Keeper> {
        Arc::new(Keeper {
            shared: Arc::downgrade(shared),
            file: file.clone(),
            is_elsewhere,
            is_started: AtomicBool::new(false),
            thread: OnceLock::new(),
        })
    }

    pub(super) fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }

    /// Has the work of a tape done: by the thread, or here and now.
    pub(super) fn work(self: &Arc<Keeper>, shared: &Shared, tape: &Tape) {
        let has_thread = self.thread.get().is_some() || !self.is_elsewhere && has_threads() && self.start();
        if has_thread { self.wake() } else { do_work(shared, tape) }
    }

    /// Has the thread ask the frame source for names: it may wait for its interpreter, which may wait for the calling
    /// thread.
    pub(crate) fn name_words(self: &Arc<Keeper>) {
        if self.start() {
            self.wake();
        }
    }

    /// Wakes the thread, if there is one; it ends if the file is closed.
    pub(super) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Starts the thread, unless it was started; returns whether there is one. It ends when the file is closed, and with
    /// the recorder.
    fn start(self: &Arc<Keeper>) -> bool {
        if self.is_started.swap(true, Ordering::AcqRel) {
            // Another thread is about to start it, or cannot.
            return self.thread.get().is_some();
        }
        // A signal that the program blocks, to take it with `sigwait`, must not reach this thread and end the program.
        let _blocked = Blocked::new();
        let keeper = self.clone();
        let run = move || {
            // What it allocates is the recorder's own.
            let _guard = Guard::enter();
            while keeper.keep() {
                thread::park();
            }
        };
        let started = thread::Builder::new().name("memreel-tape".into()).spawn(run);
        started.is_ok_and(|handle| self.thread.set(handle.thread().clone()).is_ok())
    }

    /// Does what there is to do; returns whether the recorder still has the file.
    fn keep(&self) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        shared.stacks.name_words();
        let tapes: Vec<Arc<Tape>> = lock(&shared.tapes).iter().map(|(_, tape)| tape.clone()).collect();
        for tape in &tapes {
            do_work(&shared, tape);
        }
        self.file.is_open()
    }
}

/// Returns whether this process has more than one thread.
fn has_threads() -> bool {
    fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.take(2).count() > 1)
}

fn do_work(shared: &Shared, tape: &Tape) {
    let Some(Work { file, device, unsealed, fold }) = tape.work() else { return };
    unsealed.iter().for_each(|chunk| chunk.lines().seal());
    drop(unsealed);
    let Some((mut fold, mut cut)) = fold else { return };
    let until = cut.until;
    let mut live = match fold.start {
        Start::Live(live) => live,
        // The keeper in another process has left, and its list stays.
        Start::InFile => match Contents::read_until(file.path(), device, until) {
            Ok(contents) => {
                let base = contents.bases.into_iter().next();
                cut.after = base.as_ref().map_or(cut.after, |base| base.until);
                base.map_or_else(Live::default, |base| Live::of(&base.segments))
            }
            Err(_) => {
                fold.n_missing += 1;
                Live::default()
            }
        },
    };
    // Contexts are numbered before an event has them, so those of the cut are in this copy.
    let contexts = lock(&shared.contexts).all();
    let tables = LogTables { contexts, scale: shared.clock.scale() };
    let log = cut.read();
    log.entries(&tables).for_each(|entry| live.apply(&entry.event));
    drop(log);
    let base = in_file::write(&file, device, &live.inventory(), (until, until), fold.n_missing);
    fold.start = Start::Live(live);
    tape.end_work(|in_file| in_file.end_fold(fold, until, base));
}
