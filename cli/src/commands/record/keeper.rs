//! Keeps the tapes of a run while its program runs: a thread in the program could be seen by it.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use memreel::recorder::TapeKeeper;

use super::folder::{Folder, TapeFile};

/// How often the tapes are looked at.
const INTERVAL: Duration = Duration::from_millis(50);

/// At each of so many looks, the tapes of processes that have ended are let go.
const LOOKS: u32 = 20;

/// The thread that keeps the tapes; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Keeper {
    /// Closed to end the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Begins to keep the tapes of a folder. Without the thread, each process keeps its own.
    pub(super) fn start(folder: &Folder) -> Keeper {
        let (folder, (end, is_over)) = (folder.clone(), mpsc::channel());
        let keep = move || {
            let mut tapes = Tapes::default();
            for look in 1.. {
                tapes.keep(&folder);
                if look % LOOKS == 0 {
                    tapes.let_go();
                }
                if is_over.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        Keeper { end: Some(end), thread: thread::Builder::new().name("keeper".into()).spawn(keep).ok() }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The tapes of a run; `None` for those that were let go.
#[derive(Debug, Default)]
struct Tapes(BTreeMap<TapeFile, Option<TapeKeeper>>);

impl Tapes {
    /// Folds what is due in each tape, those that are new too. A folder that cannot be read is read again.
    fn keep(&mut self, folder: &Folder) {
        for tape in folder.tapes().unwrap_or_default() {
            if !self.0.contains_key(&tape)
                // Its process may be about to write its header.
                && let Ok(keeper) = TapeKeeper::attach(&tape.path)
            {
                self.0.insert(tape, Some(keeper));
            }
        }
        for keeper in self.0.values_mut().flatten() {
            keeper.keep();
        }
    }

    fn let_go(&mut self) {
        for keeper in self.0.values_mut() {
            if keeper.as_ref().is_some_and(|keeper| !keeper.is_needed()) {
                *keeper = None;
            }
        }
    }
}
