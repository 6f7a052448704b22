//! The threads that read some files and answer questions about them.

#![forbid(unsafe_code)]

use std::{
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver},
    },
    thread,
};

use super::{
    question::{Desk, Question},
    reading::{Source, read},
    recording::Recording,
    route::Files,
};
use crate::row::Maker;

/// The number of threads that answer questions about one moment or block, and of those that answer the others: a list or a
/// replay does not keep the page waiting.
const N_ANSWERING: usize = 2;

/// The pending requests about some files.
pub(super) struct Queues([Mutex<Receiver<Question>>; 2]);

/// Returns where to ask, and what is asked there.
pub(super) fn desk() -> (Desk, Queues) {
    let ((ask, asked), (ask_long, asked_long)) = (mpsc::channel(), mpsc::channel());
    (Desk { ask, ask_long }, Queues([asked, asked_long].map(Mutex::new)))
}

/// Reads the files and answers requests about them, until the desk is gone. Meanwhile calls `work` with whether all
/// files are read, and returns its result.
pub(super) fn answer_about<R>(
    paths: &[PathBuf],
    make: Maker,
    queues: &Queues,
    work: impl FnOnce(&AtomicBool) -> R,
) -> R {
    let sources: Vec<Source> = paths.iter().map(|path| Source::new(path)).collect();
    let recordings: Vec<OnceLock<Recording<'_>>> = sources.iter().map(|_| OnceLock::new()).collect();
    let files = Files { sources: &sources, recordings: &recordings, make };
    let is_read = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            read(files.sources, files.recordings);
            is_read.store(true, Ordering::Relaxed);
        });
        for queue in &queues.0 {
            for _ in 0..N_ANSWERING {
                scope.spawn(|| answer(&files, queue));
            }
        }
        work(&is_read)
    })
}

fn answer(files: &Files<'_>, asked: &Mutex<Receiver<Question>>) {
    loop {
        let next = asked.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Question { request, reply }) = next else { return };
        // A page that is closed waits for no answer.
        if reply.is_closed() {
            continue;
        }
        // The page of a failed answer shows that it failed; the thread answers the next question.
        if let Ok(answer) = panic::catch_unwind(AssertUnwindSafe(|| files.answer(&request))) {
            let _answered = reply.send(answer);
        }
    }
}
