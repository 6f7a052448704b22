//! A second source of frames: an interpreter with its own stack.

use std::{
    fmt, ptr,
    sync::{
        Arc,
        atomic::{AtomicPtr, Ordering},
    },
};

/// Supplies frames that machine code does not show, such as Python's.
///
/// In a snapshot they come before the native frames, except those of Python ([`FrameSource::is_python`]).
/// `Recorder::set_frame_source` sets the source of a recorder.
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
    /// Called at each capture, perhaps inside an allocator: it must not allocate, block or panic. If it panics, the
    /// stack has no frames from the source.
    fn capture(&self, words: &mut [usize]) -> usize;

    /// Returns the frames that one word represents, innermost first. Called when a snapshot is taken, for each distinct
    /// word, with none of memreel's locks held: it may wait for the interpreter. If it panics, the word has no frames.
    fn name(&self, word: usize) -> Vec<SourceFrame>;

    /// Returns whether stacks of native frames ([`StackKind::Native`](../recorder/enum.StackKind.html)) have words of
    /// this source too, as they do by default. If not, only `StackKind::All` and `StackKind::Python` ask for them. It
    /// is called once, when the source is set.
    fn joins_native(&self) -> bool {
        true
    }

    /// Like [`FrameSource::capture`], for a stack of native frames. By default it is the same.
    fn capture_for_native(&self, words: &mut [usize]) -> usize {
        self.capture(words)
    }

    /// Returns whether CPython's interpreter loop runs the frame of a word. Such frames are placed where PyTorch places
    /// them: one before each native frame whose name contains `PyEval_EvalFrame`, and the rest at the end.
    fn is_python(&self, word: usize) -> bool {
        let _ = word;
        false
    }

    /// Returns the function that a word is in, if the source has a copy of it. The word is then the function's number,
    /// in the upper 32 bits, and the offset of an instruction. The tape's file gets the function before the first event
    /// that refers to it. Called for a new stack during its capture, so it must not wait for the interpreter.
    fn code(&self, word: usize) -> Option<SourceCode> {
        let _ = word;
        None
    }

    /// Returns whether [`FrameSource::name`] works without waiting for this word. The tape's file then gets the names
    /// before the first event that refers to them.
    fn names_at_once(&self, word: usize) -> bool {
        let _ = word;
        false
    }
}

/// A CPython function, as copied from the interpreter.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SourceCode {
    /// The name of the function: `forward`.
    pub name: String,
    /// The name with its class: `Linear.forward`. Before CPython 3.11, the same as the name.
    pub qualname: String,
    /// The path of its source file.
    pub filename: String,
    /// The line of its definition.
    pub first_line: u32,
    /// The minor version of CPython 3, which determines the format of the table.
    pub version: u32,
    /// The line table of its instructions.
    pub line_table: Vec<u8>,
}

/// A frame, as named by a [`FrameSource`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SourceFrame {
    /// The name of the function.
    pub name: String,
    /// The path of its source file.
    pub filename: String,
    /// The line number; 0 if unknown.
    pub line: u32,
}

/// A slot for one source, which remains once it is set.
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
        // Relaxed if it fails: the present value is not read.
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
