//! The work of a keeper in this process: dropped events become the list of live blocks, full chunks get checksums.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::{
    in_file::{self, Start, Work},
    keeper::Duties,
    live::Live,
    log::LogTables,
    shared::Shared,
    tape::Tape,
};
use crate::{process::sync::lock, tape::Contents};

/// Returns what the keeper of a recorder's file does.
pub(super) fn duties(shared: &Arc<Shared>) -> Duties {
    let (of_fold, of_names) = (Arc::downgrade(shared), Arc::downgrade(shared));
    Duties {
        fold: Box::new(move || of_fold.upgrade().iter().for_each(|shared| fold(shared))),
        name_words: Box::new(move || of_names.upgrade().iter().for_each(|shared| shared.stacks.name_words())),
    }
}

fn fold(shared: &Shared) {
    let tapes: Vec<Arc<Tape>> = lock(&shared.tapes).iter().map(|(_, tape)| tape.clone()).collect();
    for tape in &tapes {
        do_work(shared, tape);
    }
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
