//! The frame source for Python.

use std::{
    cell::Cell,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread_local,
};

use once_cell::race::OnceBox;

use super::{
    code::{frame_of, number_of},
    codes::{Codes, TOO_MANY},
    ending,
    interpreter::{Interpreter, Missing},
    walk::walk,
};
use crate::stack::{FrameSource, SourceCode, SourceFrame};

thread_local! {
    /// How often this thread looked in vain.
    static ASKED: Cell<u32> = const { Cell::new(0) };
}

/// After the first few captures, a thread looks for an interpreter once in this many captures.
const EVERY: u32 = 1024;

/// The frames of CPython 3.9 to 3.15, read without the interpreter's lock.
///
/// Give it to `Recorder::set_frame_source` and ask for Python frames with `StackKind::All` or `StackKind::Python`. Each
/// thread's frames are read as memory by that thread, so a capture waits for neither the lock nor another thread.
/// `docs/python.md` in the repository describes what is shown.
///
/// ```
/// use memreel::{Reel, integrate::PythonFrames, recorder::{Recording, StackKind}};
///
/// let reel = Reel::builder().history(Recording::all().stacks(StackKind::All)).build()?;
/// let python = PythonFrames::new();
/// if let Err(why) = python.version() {
///     eprintln!("native frames alone: {why}");
/// }
/// reel.recorder().set_frame_source(python);
/// # Ok::<(), memreel::Error>(())
/// ```
pub struct PythonFrames {
    /// Filled once an interpreter is loaded.
    found: OnceBox<Result<Interpreter, String>>,
    /// Set if a check failed. Relaxed: a thread that reads it late captures a few more wrong frames.
    is_wrong: AtomicBool,
    pub(super) codes: Codes,
}

impl PythonFrames {
    /// Returns a source that finds an interpreter once one is loaded, now or later.
    #[must_use]
    pub fn new() -> Arc<PythonFrames> {
        let frames =
            PythonFrames { found: OnceBox::new(), is_wrong: AtomicBool::new(false), codes: Codes::new() };
        let _ = frames.prepare();
        Arc::new(frames)
    }

    /// Returns the frames of the interpreter that is loaded now, if memreel can read them.
    #[must_use]
    pub fn find() -> Option<Arc<PythonFrames>> {
        let frames = PythonFrames::new();
        frames.version().is_ok().then_some(frames)
    }

    /// Returns the version of the interpreter, such as `3.12.1`.
    ///
    /// # Errors
    /// The reason why there are no Python frames: no interpreter is loaded, or it is not one that memreel can read, or
    /// [`PythonFrames::check`] found wrong frames.
    pub fn version(&self) -> Result<&str, String> {
        match self.look() {
            Ok(interpreter) if self.is_wrong.load(Ordering::Relaxed) => Err(format!(
                "the frames read from CPython {} differ from those that it reports itself",
                interpreter.version
            )),
            Ok(interpreter) => Ok(&interpreter.version),
            Err(Missing::NotLoaded) => Err("no Python interpreter is loaded".into()),
            Err(Missing::Unknown(why)) => Err(why),
        }
    }

    /// Returns how many distinct code objects were seen.
    #[must_use]
    pub fn n_codes(&self) -> usize {
        self.codes.n()
    }

    /// Looks for the interpreter, unless it was already found.
    pub(super) fn look(&self) -> Result<&Interpreter, Missing> {
        let found = self.found.get_or_try_init(|| match Interpreter::find() {
            Ok(interpreter) => Ok(Box::new(Ok(interpreter))),
            Err(Missing::Unknown(why)) => Ok(Box::new(Err(why))),
            Err(Missing::NotLoaded) => Err(Missing::NotLoaded),
        });
        found?.as_ref().map_err(|why| Missing::Unknown(why.clone()))
    }

    /// Returns the interpreter, and prepares walks by threads that do not have its lock.
    fn prepare(&self) -> Result<&Interpreter, Missing> {
        let interpreter = self.look()?;
        ending::ask(interpreter);
        Ok(interpreter)
    }

    /// Returns the interpreter for a capture. Looking for one takes microseconds, so it is not done at each capture.
    #[inline(always)]
    fn present(&self) -> Option<&Interpreter> {
        let found = match self.found.get() {
            Some(found) => found.as_ref().ok(),
            None => self.look_at_times(),
        };
        found.filter(|_| !self.is_wrong.load(Ordering::Relaxed))
    }

    #[cold]
    #[inline(never)]
    fn look_at_times(&self) -> Option<&Interpreter> {
        let n = ASKED.try_with(|asked| asked.replace(asked.get().wrapping_add(1))).ok()?;
        if n.is_power_of_two() || n.is_multiple_of(EVERY) { self.prepare().ok() } else { None }
    }

    /// Writes the words of this thread's frames, as many as there is room for, and returns their number.
    #[inline(always)]
    pub(super) fn words_with(&self, interpreter: &Interpreter, words: &mut [usize]) -> usize {
        let state = interpreter.this_thread();
        if state == 0 {
            return 0;
        }
        let Some(_permit) = ending::permit(interpreter) else { return 0 };
        // SAFETY: the state is this thread's own, nothing frees it while there is the permit, and the layout is that of
        // the interpreter's version.
        unsafe { walk(&interpreter.layout, interpreter.code_type, state, &self.codes, words) }
    }

    /// Stops capturing frames.
    pub(super) fn stop(&self) {
        self.is_wrong.store(true, Ordering::Relaxed);
    }
}

impl FrameSource for PythonFrames {
    fn capture(&self, words: &mut [usize]) -> usize {
        self.present().map_or(0, |interpreter| self.words_with(interpreter, words))
    }

    fn joins_native(&self) -> bool {
        false
    }

    fn capture_for_native(&self, _: &mut [usize]) -> usize {
        0
    }

    fn name(&self, word: usize) -> Vec<SourceFrame> {
        let lost = |name: &str| SourceFrame { name: name.into(), filename: "??".into(), line: 0 };
        let number = number_of(word);
        let frame = match self.codes.get(number) {
            Some(code) => frame_of(&code, word),
            None if number == TOO_MANY => lost("table of Python code full"),
            None => lost(&format!("Python code {number}")),
        };
        vec![frame]
    }

    fn is_python(&self, _: usize) -> bool {
        true
    }

    fn code(&self, word: usize) -> Option<SourceCode> {
        self.codes.get(number_of(word)).map(|code| (*code).clone())
    }
}

impl fmt::Debug for PythonFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PythonFrames").field("version", &self.version()).field("codes", &self.codes).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_interpreter_there_are_no_frames_and_a_reason() {
        let frames = PythonFrames::new();
        let mut words = [0; 8];
        for _ in 0..3 * EVERY {
            assert_eq!(frames.capture(&mut words), 0);
        }
        assert!(!frames.version().unwrap_err().is_empty());
        assert!(PythonFrames::find().is_none());
        assert_eq!(frames.name(1 << 32)[0].name, "Python code 1");
    }
}
