//! A second source of frames: an interpreter with a stack of its own.

use std::{
    fmt, ptr,
    sync::{
        Arc,
        atomic::{AtomicPtr, Ordering},
    },
};

/// Supplies frames that machine code does not show, such as Python's.
///
/// In a snapshot they come before the native frames. `Recorder::set_frame_source` sets the
/// source of a recorder.
///
/// ```
/// use std::sync::Arc;
///
/// use memreel::{
///     integrate::{FrameSource, SourceFrame},
///     recorder::Recorder,
/// };
///
/// /// An interpreter whose one frame is at a line of `script.py`.
/// struct Interpreter;
///
/// impl FrameSource for Interpreter {
///     fn capture(&self, words: &mut [usize]) -> usize {
///         words[0] = 12;
///         1
///     }
///
///     fn name(&self, word: usize) -> Vec<SourceFrame> {
///         vec![SourceFrame { name: "main".into(), filename: "script.py".into(), line: word as u32 }]
///     }
/// }
///
/// assert!(Recorder::new().set_frame_source(Arc::new(Interpreter)));
/// ```
pub trait FrameSource: Send + Sync {
    /// Writes one word for each frame of this thread, innermost first, and
    /// returns the number of words. [`FrameSource::name`] must be able to name a
    /// word for as long as the recorder lives.
    ///
    /// Called at each capture, perhaps inside an allocator: it must not
    /// allocate, block or panic. If it panics, the stack has no frames of the source.
    fn capture(&self, words: &mut [usize]) -> usize;

    /// Returns the frames that one word represents, innermost first. Called when a snapshot is taken, for each
    /// distinct word, with no lock of memreel's held: it may wait for the interpreter. If it panics, the word has
    /// no frames.
    fn name(&self, word: usize) -> Vec<SourceFrame>;
}

/// A frame as a [`FrameSource`] names it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SourceFrame {
    /// The name of the function.
    pub name: String,
    /// The path of its source file.
    pub filename: String,
    /// The line number; 0 if unknown.
    pub line: u32,
}

/// Room for one source, which stays once it is set.
///
/// A pointer rather than a `OnceLock`: captures read it, and a capture uses no lock.
#[derive(Default)]
pub(super) struct SourceSlot(AtomicPtr<Arc<dyn FrameSource>>);

impl SourceSlot {
    pub(super) fn get(&self) -> Option<&Arc<dyn FrameSource>> {
        // SAFETY: null, or the pointer that `set` stored, which is valid until `drop`.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Sets the source if there is none; returns whether there was none.
    pub(super) fn set(&self, source: Arc<dyn FrameSource>) -> bool {
        let source = Box::into_raw(Box::new(source));
        let first =
            self.0.compare_exchange(ptr::null_mut(), source, Ordering::Release, Ordering::Relaxed).is_ok();
        if !first {
            // SAFETY: made above and not shared.
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
