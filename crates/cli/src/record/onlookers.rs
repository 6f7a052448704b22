//! Reads the resident memory of the processes of a run on a separate thread from the one that keeps their tapes:
//! reading a large process takes longer than a tape can wait.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use memreel::Onlooker;

use super::tapes::{Tapes, lock};
use crate::run::tape_file::TapeFile;

/// How often it is checked whether a reading is due.
const INTERVAL: Duration = Duration::from_millis(50);

/// The processes that are looked at, by their tapes.
type All = BTreeMap<TapeFile, Onlooker>;

/// The thread that reads; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Onlookers {
    /// Locked while the thread looks.
    all: Arc<Mutex<All>>,
    /// Closed to end the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Onlookers {
    /// Starts to read the processes whose tapes are kept. Without the thread there are no readings.
    pub(super) fn start(tapes: Arc<Mutex<Tapes>>) -> Onlookers {
        let all = Arc::new(Mutex::new(All::new()));
        let (of_thread, (end, is_over)) = (all.clone(), mpsc::channel::<()>());
        let work = move || {
            while is_over.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let found = follow(&mut lock(&of_thread), &lock(&tapes));
                // One after the other, so that a tape is let go between two looks.
                for tape in found {
                    lock(&of_thread).get_mut(&tape).into_iter().for_each(Onlooker::look);
                }
            }
        };
        let thread = thread::Builder::new().name("onlooker".into()).spawn(work).ok();
        Onlookers { all, end: Some(end), thread }
    }

    /// Waits until a tape that is no longer kept is not written to.
    pub(super) fn let_go(&self, tape: &TapeFile) {
        lock(&self.all).remove(tape);
    }
}

/// Creates an onlooker for each tape that is kept. Returns which these are.
fn follow(all: &mut All, tapes: &Tapes) -> Vec<TapeFile> {
    all.retain(|tape, _| tapes.get(tape).is_some_and(Option::is_some));
    for (tape, keeper) in tapes {
        if let Some(keeper) = keeper
            && !all.contains_key(tape)
        {
            all.insert(tape.clone(), keeper.onlooker());
        }
    }
    all.keys().cloned().collect()
}

impl Drop for Onlookers {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
