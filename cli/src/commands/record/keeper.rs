//! Keeps the tapes of a run while its program runs: a thread in the program could be seen by it.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc, Mutex,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use memreel::recorder::TapeKeeper;

use super::{
    backlog::Backlog,
    folder::{TapeFile, tapes_in},
    onlookers::Onlookers,
    options::Options,
    room::Room,
    tapes::{Tapes, lock},
};

/// How often the tapes are looked at.
const INTERVAL: Duration = Duration::from_millis(50);

/// The thread that keeps the tapes; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Keeper {
    tapes: Arc<Mutex<Tapes>>,
    backlog: Arc<Backlog>,
    room: Arc<Room>,
    onlookers: Option<Onlookers>,
    /// Closed to end the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Begins to keep the tapes of a folder. Without the thread, each process keeps its own. There may be any number of them
    /// if all are kept.
    pub(super) fn start(folder: &Path, options: &Options) -> Keeper {
        let backlog = Arc::new(Backlog::of(folder, options.tape_space));
        let (is_open, has_heaps) = (options.keep_tape, options.heap);
        let of_folder = backlog.clone();
        let (folder, (end, is_over)) = (folder.to_owned(), mpsc::channel());
        let tapes = Arc::new(Mutex::new(Tapes::new()));
        let (of_thread, room) = (tapes.clone(), Arc::new(Room::start()));
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

    /// Lets a tape go, whose process has ended: nothing is written into it from now on. Returns whether another program made
    /// it shorter.
    pub(super) fn let_go(&self, tape: &TapeFile) -> bool {
        let kept = lock(&self.tapes).insert(tape.path.clone(), None).flatten();
        self.room.let_go(&tape.path);
        self.onlookers.iter().for_each(|onlookers| onlookers.let_go(&tape.path));
        kept.is_some_and(|mut keeper| keeper.is_cut_short())
    }

    /// Forgets a tape that is gone: another one may have its name.
    pub(super) fn forget(&self, tape: &TapeFile) {
        lock(&self.tapes).remove(&tape.path);
    }

    /// Returns how many processes went on unrecorded, because very many recordings waited to be saved.
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

/// Folds what is due in each tape that was found, in those that are new too.
fn keep(tapes: &mut Tapes, found: &[TapeFile], room: &Room) {
    let paths: BTreeSet<&Path> = found.iter().map(|tape| &*tape.path).collect();
    tapes.retain(|path, _| paths.contains(&**path));
    room.retain(|path| paths.contains(path));
    for TapeFile { path, .. } in found {
        if let Some(known) = tapes.get_mut(path) {
            known.iter_mut().for_each(|keeper| _ = keeper.keep());
        } else if let Ok(mut keeper) = TapeKeeper::attach(path) {
            room.add(path, &mut keeper);
            // Where that fails, the process may be about to write the beginning.
            tapes.insert(path.clone(), Some(keeper));
        }
    }
}
