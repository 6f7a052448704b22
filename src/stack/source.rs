//! A second source of frames: an interpreter that knows its own stack.

use std::{
    fmt, ptr,
    sync::{
        Arc,
        atomic::{AtomicPtr, Ordering},
    },
};

/// Gives frames that machine code does not show, such as Python's.
///
/// They stand before the native frames in a snapshot.
pub trait FrameSource: Send + Sync {
    /// Writes one word for each frame of this thread, innermost first, and
    /// returns how many. A word means what [`FrameSource::name`] makes of it,
    /// for as long as the recorder lives.
    ///
    /// Called at each capture, perhaps inside of an allocator: it must not
    /// allocate, block or panic.
    fn capture(&self, words: &mut [usize]) -> usize;

    /// The frames behind one word, innermost first. Called when a snapshot is taken.
    fn name(&self, word: usize) -> Vec<SourceFrame>;
}

/// A frame as a [`FrameSource`] names it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SourceFrame {
    /// The function.
    pub name: String,
    /// Its file.
    pub filename: String,
    /// The line, 0 when unknown.
    pub line: u32,
}

/// Room for one source, which stays once it is there.
///
/// A pointer and not a `OnceLock`: captures read it, and a capture names no lock.
#[derive(Default)]
pub(super) struct SourceSlot(AtomicPtr<Arc<dyn FrameSource>>);

impl SourceSlot {
    pub(super) fn get(&self) -> Option<&Arc<dyn FrameSource>> {
        // SAFETY: null, or what `set` put here, which stays until `drop`.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Whether it was the first.
    pub(super) fn set(&self, source: Arc<dyn FrameSource>) -> bool {
        let source = Box::into_raw(Box::new(source));
        let first =
            self.0.compare_exchange(ptr::null_mut(), source, Ordering::Release, Ordering::Relaxed).is_ok();
        if !first {
            // SAFETY: made above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(source) });
        }
        first
    }
}

impl Drop for SourceSlot {
    fn drop(&mut self) {
        let source = *self.0.get_mut();
        if !source.is_null() {
            // SAFETY: from `Box::into_raw` in `set`, and no borrow outlives `self`.
            drop(unsafe { Box::from_raw(source) });
        }
    }
}

impl fmt::Debug for SourceSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SourceSlot").field(&self.get().is_some()).finish()
    }
}
