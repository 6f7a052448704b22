//! What a tape's file needs to name a stack: the loaded modules, and the names of a frame source's words.
#![forbid(unsafe_code)]

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use rustc_hash::FxHashSet;

use super::source::{FrameSource, SourceCode, SourceFrame};
use crate::stack::{
    landmark,
    modules::{self, Generation},
};
use crate::tape::{CodeNote, Note, NotedFrame, TapeFile};

/// Makes a thread without locks call [`StackInterner::name_words`](super::StackInterner::name_words) soon: the frame
/// source may wait for its interpreter, which may wait for the thread that captures.
#[derive(Clone)]
pub(crate) struct AskLater(pub(crate) Arc<dyn Fn() + Send + Sync>);

impl fmt::Debug for AskLater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AskLater").finish()
    }
}

/// What a file already has.
#[derive(Debug)]
pub(super) struct StackNotes {
    file: Arc<TapeFile>,
    later: AskLater,
    /// One above the last generation whose modules are in the file; 0 at first.
    generation: AtomicU32,
    /// No other lock is taken under this one.
    words: Mutex<Words>,
}

/// The words of the frame source.
#[derive(Debug, Default)]
struct Words {
    known: FxHashSet<usize>,
    /// The numbers of the functions that are in the file.
    codes: FxHashSet<u32>,
    /// The words whose names are not in the file yet.
    unnamed: Vec<usize>,
}

impl StackNotes {
    pub(super) fn new(file: Arc<TapeFile>, later: AskLater) -> StackNotes {
        StackNotes { file, later, generation: AtomicU32::new(0), words: Mutex::default() }
    }

    /// Writes the modules that the file lacks, and names for new words of the source. If that may have to wait for the
    /// interpreter, it is left to the keeper.
    pub(super) fn add(&self, generation: Generation, words: &[usize], source: Option<&dyn FrameSource>) {
        if !self.file.is_open() {
            return;
        }
        let next = generation.number().saturating_add(1);
        // Relaxed: the thread that raises the number writes the modules, which are behind their own pointer.
        if self.generation.fetch_max(next, Ordering::Relaxed) < next {
            let modules = modules::loaded_in(generation);
            let landmark = landmark::address() as u64;
            self.file.note(&Note::Modules { generation: generation.number(), landmark, modules });
        }
        let mut is_unnamed = false;
        for word in words {
            if self.words().known.contains(word) {
                continue;
            }
            // Marked as known only once it is in the file: another thread may write an event with this word
            // immediately.
            let is_written = source.is_some_and(|source| {
                catch_unwind(AssertUnwindSafe(|| self.write(source, *word))).unwrap_or(false)
            });
            let mut all = self.words();
            if all.known.insert(*word) && !is_written {
                all.unnamed.push(*word);
                is_unnamed = true;
            }
        }
        if is_unnamed {
            (self.later.0)();
        }
    }

    /// Writes what names a word, if the source has that without waiting; returns whether it does.
    fn write(&self, source: &dyn FrameSource, word: usize) -> bool {
        let number = (word as u64 >> 32) as u32;
        if let Some(code) = source.code(word) {
            if !self.words().codes.contains(&number) {
                self.file.note(&Note::Code(code_note(number, code)));
                self.words().codes.insert(number);
            }
            return true;
        }
        let at_once = source.names_at_once(word);
        if at_once {
            self.write_names(word, source.name(word));
        }
        at_once
    }

    fn write_names(&self, word: usize, frames: Vec<SourceFrame>) {
        let frame = |SourceFrame { name, filename, line }: SourceFrame| NotedFrame { name, filename, line };
        let frames = frames.into_iter().map(frame).collect();
        self.file.note(&Note::Source { word: word as u64, frames });
    }

    /// Writes the names of new words. Only the keeper calls it, without a lock.
    pub(super) fn name_words(&self, source: &dyn FrameSource) {
        let unnamed = std::mem::take(&mut self.words().unnamed);
        for word in unnamed {
            let frames = catch_unwind(AssertUnwindSafe(|| source.name(word))).unwrap_or_default();
            self.write_names(word, frames);
        }
    }

    fn words(&self) -> MutexGuard<'_, Words> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn code_note(number: u32, code: SourceCode) -> CodeNote {
    let SourceCode { name, qualname, filename, first_line, version, line_table } = code;
    CodeNote { number, name, qualname, filename, first_line, version, line_table }
}
