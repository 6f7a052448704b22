//! What a tape's file must know to name a stack: the modules that are loaded, and the names of a frame source's words.
#![forbid(unsafe_code)]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread::Thread,
};

use rustc_hash::FxHashSet;

use super::{
    landmark,
    modules::{self, Generation},
    source::{FrameSource, SourceFrame},
};
use crate::tape::{Note, NotedFrame, TapeFile};

/// What a file knows.
#[derive(Debug)]
pub(super) struct Noted {
    file: Arc<TapeFile>,
    /// The thread that asks the frame source for names: it may wait for its interpreter, which may wait for the thread
    /// that captures.
    keeper: Thread,
    /// 1 above the last generation whose modules are in the file; 0 at first.
    generation: AtomicU32,
    /// No other lock is taken under this one.
    words: Mutex<Words>,
}

/// The words of the frame source.
#[derive(Debug, Default)]
struct Words {
    known: FxHashSet<usize>,
    /// Those whose names are not in the file yet.
    unnamed: Vec<usize>,
}

impl Noted {
    pub(super) fn new(file: Arc<TapeFile>, keeper: Thread) -> Noted {
        Noted { file, keeper, generation: AtomicU32::new(0), words: Mutex::default() }
    }

    /// Writes the modules that the file lacks, and leaves new words of the source to the keeper.
    pub(super) fn add(&self, generation: Generation, words: &[usize]) {
        if !self.file.is_open() {
            return;
        }
        let next = generation.number().saturating_add(1);
        if self.generation.fetch_max(next, Ordering::Relaxed) < next {
            let modules = modules::loaded_in(generation);
            let landmark = landmark::address() as u64;
            self.file.note(&Note::Modules { generation: generation.number(), landmark, modules });
        }
        if words.is_empty() {
            return;
        }
        let mut all = self.words();
        let n_before = all.unnamed.len();
        for word in words {
            if all.known.insert(*word) {
                all.unnamed.push(*word);
            }
        }
        if all.unnamed.len() > n_before {
            self.keeper.unpark();
        }
    }

    /// Writes the names of new words. Only the keeper calls it, without a lock.
    pub(super) fn name_words(&self, source: &dyn FrameSource) {
        let unnamed = std::mem::take(&mut self.words().unnamed);
        for word in unnamed {
            let frames = catch_unwind(AssertUnwindSafe(|| source.name(word))).unwrap_or_default();
            let frame =
                |SourceFrame { name, filename, line }: SourceFrame| NotedFrame { name, filename, line };
            let frames = frames.into_iter().map(frame).collect();
            self.file.note(&Note::Source { word: word as u64, frames });
        }
    }

    fn words(&self) -> MutexGuard<'_, Words> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
