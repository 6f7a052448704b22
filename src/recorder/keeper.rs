//! The keeper of a tape's file: gives full chunks checksums, and folds events that the ring dropped into the list of
//! live blocks.
//!
//! In a program with several threads it is one more thread, which blocks all signals. A single-threaded program remains
//! so: a second thread would change what `fork` warns about and what `unshare` permits. There, the thread that fills a
//! chunk does the work. A tape that another process keeps ([`TapeKeeper`](super::TapeKeeper)) has no thread here
//! either.
#![forbid(unsafe_code)]

use std::{
    fmt, fs,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
};

use crate::{
    process::{guard::Guard, mask::Blocked, uncancelled::Uncancelled},
    tape::TapeFile,
};

/// The work of a keeper; nothing if the recorder is gone.
pub(super) struct Duties {
    /// Folds what is due on every tape, and gives full chunks checksums.
    pub(super) fold: Box<dyn Fn() + Send + Sync>,
    /// Asks the frame source for names.
    pub(super) name_words: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Duties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Duties").finish_non_exhaustive()
    }
}

/// The keeper of a recorder's file.
#[derive(Debug)]
pub(crate) struct Keeper {
    file: Arc<TapeFile>,
    duties: Duties,
    /// Whether another process keeps the file, for as long as it follows.
    is_elsewhere: bool,
    is_started: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Keeper {
    /// Returns the keeper of a file, not yet started. Another process keeps the file if `is_elsewhere`.
    pub(super) fn new(file: &Arc<TapeFile>, is_elsewhere: bool, duties: Duties) -> Arc<Keeper> {
        Arc::new(Keeper {
            file: file.clone(),
            duties,
            is_elsewhere,
            is_started: AtomicBool::new(false),
            thread: OnceLock::new(),
        })
    }

    pub(super) fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }

    /// Does the work: on the thread if there is one, otherwise here.
    pub(super) fn work(self: &Arc<Keeper>) {
        // The work opens files inside a call such as `free`, where a cancelled thread must not end.
        let _uncancelled = Uncancelled::begin();
        let has_thread = self.thread.get().is_some() || !self.is_elsewhere && has_threads() && self.start();
        if has_thread { self.wake() } else { (self.duties.fold)() }
    }

    /// Makes the thread ask the frame source for names: that may wait for its interpreter, which may wait for the
    /// calling thread.
    pub(crate) fn name_words(self: &Arc<Keeper>) {
        if self.start() {
            self.wake();
        }
    }

    /// Wakes the thread, if there is one; the thread ends if the file is closed.
    pub(super) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Starts the thread, unless it was started; returns whether there is one. If it cannot be started, the next call tries
    /// again. It ends when the file is closed, and with the recorder.
    fn start(self: &Arc<Keeper>) -> bool {
        if self.is_started.swap(true, Ordering::AcqRel) {
            // Another thread is about to start it.
            return self.thread.get().is_some();
        }
        // A signal that the program blocks and takes with `sigwait` must not reach this thread and end the program.
        let _blocked = Blocked::new();
        let keeper = self.clone();
        let run = move || {
            // Its allocations are the recorder's own.
            let _guard = Guard::enter();
            while keeper.keep() {
                thread::park();
            }
        };
        let started = thread::Builder::new().name("memreel-tape".into()).spawn(run);
        // A process that may not start threads now may do so later.
        self.is_started.store(started.is_ok(), Ordering::Release);
        started.is_ok_and(|handle| self.thread.set(handle.thread().clone()).is_ok())
    }

    /// Does the due work; returns whether the recorder still has the file.
    fn keep(&self) -> bool {
        (self.duties.name_words)();
        (self.duties.fold)();
        self.file.is_open()
    }
}

/// Returns whether this process has more than one thread.
fn has_threads() -> bool {
    fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.take(2).count() > 1)
}
