//! Extends the tapes of a run on a separate thread from the one that keeps them: a list of live blocks may take longer
//! than a program needs to fill its room, and a program may have forbidden itself to extend the file.

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

use memreel::{SpaceMaker, TapeKeeper};

use super::tapes::lock;
use crate::run::tape_file::TapeFile;

/// How often the room in the tapes is looked at: a tenth of the time in which a fast program fills it.
const INTERVAL: Duration = Duration::from_millis(5);

/// The thread that makes room; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct SpaceThread {
    /// Locked while the thread makes room.
    makers: Arc<Mutex<BTreeMap<TapeFile, SpaceMaker>>>,
    /// Closed to end the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SpaceThread {
    /// Starts without a tape. Without the thread, the keeper of each tape makes room when it has time.
    pub(super) fn start() -> SpaceThread {
        let makers = Arc::new(Mutex::new(BTreeMap::<TapeFile, SpaceMaker>::new()));
        let (of_thread, (end, is_over)) = (makers.clone(), mpsc::channel::<()>());
        let work = move || {
            while is_over.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                lock(&of_thread).values().for_each(SpaceMaker::make_space);
            }
        };
        let thread = thread::Builder::new().name("room".into()).spawn(work).ok();
        SpaceThread { makers, end: Some(end), thread }
    }

    /// Also makes room in the tape of a keeper.
    pub(super) fn add(&self, tape: &TapeFile, keeper: &mut TapeKeeper) {
        if self.thread.is_some() {
            lock(&self.makers).insert(tape.clone(), keeper.space_maker());
        }
    }

    /// Waits until no tape is being changed.
    pub(super) fn let_go(&self, tape: &TapeFile) {
        lock(&self.makers).remove(tape);
    }

    /// Forgets all tapes but these.
    pub(super) fn retain(&self, is_there: impl Fn(&TapeFile) -> bool) {
        lock(&self.makers).retain(|tape, _| is_there(tape));
    }
}

impl Drop for SpaceThread {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
