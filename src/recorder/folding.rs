//! The keeper's work in this process: folds dropped events into the list of live blocks, and gives full chunks
//! checksums.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::{
    in_file::{self, Start, Work},
    keeper::Duties,
    live::LiveState,
    log::{Log, LogTables},
    shared::Shared,
    tape::Tape,
};
use memreel_lockfree::sync::lock;

/// How often reading a list is tried: a keeper that writes a new list may free the old one before it is read.
const READS: usize = 3;

/// Returns the duties of the keeper of a recorder's file.
pub(super) fn duties(shared: &Arc<Shared>) -> Duties {
    let (of_fold, of_names) = (Arc::downgrade(shared), Arc::downgrade(shared));
    Duties {
        fold: Box::new(move || of_fold.upgrade().iter().for_each(|shared| fold(shared))),
        name_words: Box::new(move || of_names.upgrade().iter().for_each(|shared| shared.stacks.name_words())),
    }
}

fn fold(shared: &Shared) {
    let tapes: Vec<Arc<Tape>> = lock(shared.switch.tapes()).iter().map(|(_, tape)| tape.clone()).collect();
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
        // The keeper in another process has left; its list remains.
        Start::InFile { may_lack } => {
            let read = |_| file.last_list(device, fold.folded, may_lack).ok();
            match (0..READS).find_map(read) {
                Some(Some(base)) => {
                    cut.after = base.until;
                    Box::new(LiveState::of_run(&base.segments, &base.sums))
                }
                // It left before it wrote one.
                Some(None) => Box::default(),
                None => {
                    // The file cannot be opened now, by its path or at all. Its list is complete, and a later fold may
                    // read it.
                    fold.start = Start::InFile { may_lack };
                    return tape.end_work(|in_file| in_file.end_fold(fold, until, None));
                }
            }
        }
    };
    // An event's context is numbered before the event is written, so this copy has all contexts of the cut.
    let contexts = lock(&shared.contexts).all();
    let tables = LogTables { contexts, scale: shared.clock.scale() };
    let log = Log::of(cut);
    live.apply_all(log.entries(&tables).map(|entry| (entry.event, entry.time_us)));
    drop(log);
    let base =
        in_file::write(&file, device, (&live.inventory(), &live.sums()), (until, until), fold.n_missing);
    fold.start = Start::Live(live);
    tape.end_work(|in_file| in_file.end_fold(fold, until, base));
}
