//! Keeps the tapes of a run while its program runs, because the program could notice a thread inside it.

#![forbid(unsafe_code)]

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use memreel::{TapeKeeper, TapeProcess};

use super::{
    backlog::Backlog,
    onlookers::Onlookers,
    options::Options,
    space_thread::SpaceThread,
    tapes::{Tapes, lock},
};
use crate::run::tape_file::{TapeFile, tapes_in};

/// How often the tapes are examined.
const INTERVAL: Duration = Duration::from_millis(50);

/// The thread that keeps the tapes; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Keeper {
    tapes: Arc<Mutex<Tapes>>,
    backlog: Arc<Backlog>,
    room: Arc<SpaceThread>,
    onlookers: Option<Onlookers>,
    /// Closed to end the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts to keep the tapes of a folder. Without the thread, each process keeps its own. There may be any number of
    /// them if all are kept.
    pub(super) fn start(folder: &Path, options: &Options) -> Keeper {
        let backlog = Arc::new(Backlog::of(folder, options.tape_space));
        let (is_open, has_heaps) = (options.keep_tape, options.heap);
        let of_folder = backlog.clone();
        let (folder, (end, is_over)) = (folder.to_owned(), mpsc::channel());
        let tapes = Arc::new(Mutex::new(Tapes::new()));
        let (of_thread, room) = (tapes.clone(), Arc::new(SpaceThread::start()));
        let of_tapes = room.clone();
        let work = move || {
            while is_over.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // A folder that cannot be read is read again.
                if let Ok(found) = tapes_in(&folder) {
                    if !is_open {
                        of_folder.look(&found);
                    }
                    keep(&mut lock(&of_thread), &found, &of_tapes);
                }
            }
        };
        let thread = thread::Builder::new().name("keeper".into()).spawn(work).ok();
        let onlookers = has_heaps.then(|| Onlookers::start(tapes.clone()));
        Keeper { tapes, backlog, room, onlookers, end: Some(end), thread }
    }

    /// Releases a tape whose process has ended: nothing is written into it from now on. Returns whether another program
    /// made it shorter.
    pub(super) fn let_go(&self, tape: &TapeFile) -> bool {
        let kept = lock(&self.tapes).insert(tape.clone(), None).flatten();
        self.room.let_go(tape);
        self.onlookers.iter().for_each(|onlookers| onlookers.let_go(tape));
        kept.is_some_and(|mut keeper| keeper.is_cut_short())
    }

    /// Forgets a tape that is gone, because another one may have its name.
    pub(super) fn forget(&self, tape: &TapeFile) {
        lock(&self.tapes).remove(tape);
    }

    /// Returns how many processes continued unrecorded because too many recordings waited to be saved.
    pub(super) fn n_unrecorded(&self) -> u64 {
        self.backlog.n_unrecorded()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = self.backlog.n_unrecorded();
    }
}

/// Folds what is due in each tape that was found, including new ones.
fn keep(tapes: &mut Tapes, found: &[TapeFile], room: &SpaceThread) {
    // They are in order.
    let is_there = |tape: &TapeFile| found.binary_search(tape).is_ok();
    tapes.retain(|tape, _| is_there(tape));
    room.retain(is_there);
    for tape in found {
        if let Some(known) = tapes.get_mut(tape) {
            known.iter_mut().for_each(|keeper| _ = keeper.keep());
        } else if TapeProcess::of(&tape.path).is_ok_and(|process| process.has_ended()) {
            // Of a child that lives for milliseconds the tape is read, and not kept.
            tapes.insert(tape.clone(), None);
        } else if let Ok(mut keeper) = TapeKeeper::attach(&tape.path) {
            room.add(tape, &mut keeper);
            // Where that fails, the process may be about to write the beginning.
            tapes.insert(tape.clone(), Some(keeper));
        }
    }
}
