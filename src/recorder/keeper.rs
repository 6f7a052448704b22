//! The keeper of a tape's file: a thread that does what must not delay the program.
//!
//! It sleeps until chunks are full. Then it gives them checksums, and applies the events that the ring has dropped to
//! the list of live blocks.
#![forbid(unsafe_code)]

use std::{
    io,
    sync::{Arc, Weak},
    thread::{self, Thread},
};

use super::{
    in_file::{self, Work},
    log::LogTables,
    shared::Shared,
    tape::Tape,
};
use crate::{
    process::{guard::Guard, mask::Blocked, sync::lock},
    tape::TapeFile,
};

/// Starts the keeper of a recorder's file. It ends when the file is closed, and with the recorder.
///
/// # Errors
/// If no thread can be started.
pub(super) fn start(shared: &Arc<Shared>, file: &Arc<TapeFile>) -> io::Result<Thread> {
    let (shared, file) = (Arc::downgrade(shared), file.clone());
    // A signal that the program blocks, to take it with `sigwait`, must not reach this thread and end the program.
    let _blocked = Blocked::new();
    let keeper = thread::Builder::new().name("memreel-tape".into()).spawn(move || {
        // What it allocates is the recorder's own.
        let _guard = Guard::enter();
        while keep(&shared, &file) {
            thread::park();
        }
    })?;
    Ok(keeper.thread().clone())
}

/// Does what there is to do; returns whether the recorder still has the file.
fn keep(shared: &Weak<Shared>, file: &TapeFile) -> bool {
    let Some(shared) = shared.upgrade() else { return false };
    shared.stacks.name_words();
    let tapes: Vec<Arc<Tape>> = lock(&shared.tapes).iter().map(|(_, tape)| tape.clone()).collect();
    for tape in &tapes {
        do_work(&shared, tape);
    }
    file.is_open()
}

fn do_work(shared: &Shared, tape: &Tape) {
    let Some(Work { file, device, unsealed, fold }) = tape.work() else { return };
    unsealed.iter().for_each(|chunk| chunk.lines().seal());
    drop(unsealed);
    let Some((mut fold, cut)) = fold else { return };
    let until = cut.until;
    // Contexts are numbered before an event has them, so those of the cut are in this copy.
    let contexts = lock(&shared.contexts).all();
    let tables = LogTables { contexts, scale: shared.clock.scale() };
    let log = cut.read();
    log.entries(&tables).for_each(|entry| fold.live.apply(&entry.event));
    drop(log);
    let base = in_file::write(&file, device, &fold.live.inventory(), (until, until), fold.n_missing);
    tape.end_work(|in_file| in_file.end_fold(fold, until, base));
}
