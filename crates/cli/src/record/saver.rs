//! Saves what processes recorded as soon as they have ended, while the program is still running, because their tapes
//! take disk space.

#![forbid(unsafe_code)]

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, RecvTimeoutError, Sender, TryRecvError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::process::setpriority_process;

use super::processes::Processes;

/// The pause before a look at the tapes, at least, unless the look before found some.
const PAUSE: Duration = Duration::from_millis(100);

/// The pause after a look that found some: a program that starts thousands of short processes goes on, and what waits is
/// looked through each time.
const PAUSE_BETWEEN: Duration = Duration::from_millis(10);

/// The pause after a look that found nothing, by the time that the look took: they take at most a twentieth of a processor.
const PAUSE_BY_LOOK: u32 = 20;

/// How long the user waits without a message.
const PATIENCE: Duration = Duration::from_secs(2);

/// The niceness of the thread: it works on what the program leaves.
const NICE: i32 = 10;

/// A thread that saves the tapes of processes that have ended.
#[derive(Debug)]
pub(super) struct Saver {
    processes: Arc<Mutex<Processes>>,
    /// Ends the thread when it is dropped.
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Saver {
    pub(super) fn start(processes: Processes) -> Saver {
        let (stop, is_over) = mpsc::channel();
        let processes = Arc::new(Mutex::new(processes));
        let of_thread = processes.clone();
        let work = move || {
            // Of the calling thread alone, and of those that it starts.
            let _ = setpriority_process(None, NICE);
            let mut pause = PAUSE;
            while is_over.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let begun = Instant::now();
                let is_over = || is_over.try_recv() == Err(TryRecvError::Disconnected);
                let has_saved = lock(&of_thread).save_ended(is_over);
                pause = if has_saved { PAUSE_BETWEEN } else { PAUSE.max(begun.elapsed() * PAUSE_BY_LOOK) };
            }
        };
        // Without the thread, everything is saved at the end.
        let thread = thread::Builder::new().name("saver".into()).spawn(work).ok();
        Saver { processes, stop, thread }
    }

    /// Saves the rest, and calls `look` with all processes. `failure` is how the program failed; `waits` is called once if it
    /// takes seconds.
    pub(super) fn finish<T>(
        self,
        failure: Option<String>,
        waits: impl FnOnce() + Send + 'static,
        look: impl FnOnce(&mut Processes) -> T,
    ) -> T {
        drop(self.stop);
        let (_done, is_done) = mpsc::channel::<()>();
        let wait = move || {
            if is_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                waits();
            }
        };
        // It ends with the other side of the channel, or with the process.
        let _ = thread::Builder::new().name("patience".into()).spawn(wait);
        let _ = self.thread.map(JoinHandle::join);
        let mut processes = lock(&self.processes);
        processes.save_all(failure);
        look(&mut processes)
    }
}

fn lock(processes: &Mutex<Processes>) -> MutexGuard<'_, Processes> {
    processes.lock().unwrap_or_else(PoisonError::into_inner)
}
