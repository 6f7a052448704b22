//! Marks: frames with a fixed text that come before all others, and a source that combines them with another source.

use std::{
    cell::Cell,
    fmt,
    marker::PhantomData,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicPtr, Ordering},
    },
    thread_local,
};

use crate::stack::{FrameSource, SourceCode, SourceFrame};

/// A word with this bit is the number of a mark; those of [`PythonFrames`](super::PythonFrames) do not have it.
const IS_MARK: usize = 1 << (usize::BITS - 1);

thread_local! {
    /// The word of this thread's mark; 0 if it has none.
    static MARK: Cell<usize> = const { Cell::new(0) };
}

/// A text that was used as a mark, in a list that only grows.
struct Known {
    text: &'static str,
    word: usize,
    next: *const Known,
}

/// The newest mark.
static KNOWN: AtomicPtr<Known> = AtomicPtr::new(ptr::null_mut());

/// Marks this thread's stacks while the result lives: with a [`MarkedFrames`] source, this text is their innermost frame.
///
/// The frame's file is `??` and its line 0. An inner mark replaces an outer one while it lives. A text is never freed,
/// so use only a few.
///
/// ```
/// use memreel::{Reel, integrate::{MarkedFrames, mark}, recorder::Recording};
///
/// let reel = Reel::builder().history(Recording::all()).build()?;
/// reel.recorder().set_frame_source(MarkedFrames::new(None));
/// let block = {
///     let _mark = mark("driver:context");
///     reel.alloc(1 << 20)?
/// };
/// let snapshot = reel.snapshot();
/// let stack = snapshot.device_traces[0].last().unwrap().stack.unwrap();
/// assert_eq!(&*snapshot.stacks.frames(stack).next().unwrap().name, "driver:context");
/// # drop(block);
/// # Ok::<(), memreel::Error>(())
/// ```
#[must_use = "the mark ends when this is dropped"]
pub fn mark(text: &'static str) -> StackMark {
    let word = word_of(text);
    let before = MARK.try_with(|mark| mark.replace(word)).unwrap_or(0);
    StackMark { before, of_this_thread: PhantomData }
}

/// A mark of this thread's stacks ([`mark`]), which ends when it is dropped.
#[derive(Debug)]
pub struct StackMark {
    before: usize,
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for StackMark {
    fn drop(&mut self) {
        let _ = MARK.try_with(|mark| mark.set(self.before));
    }
}

/// Returns the marks, newest first.
fn known() -> impl Iterator<Item = &'static Known> {
    let mut next = KNOWN.load(Ordering::Acquire).cast_const();
    std::iter::from_fn(move || {
        // SAFETY: null, or from `Box::into_raw` in `word_of`, and never freed.
        let known = unsafe { next.as_ref() }?;
        next = known.next;
        Some(known)
    })
}

/// Returns the word of a text. Two threads that use it for the first time at once may get two words for it.
fn word_of(text: &'static str) -> usize {
    let is_same = |known: &&Known| ptr::eq(known.text, text) || known.text == text;
    if let Some(known) = known().find(is_same) {
        return known.word;
    }
    let new = Box::into_raw(Box::new(Known { text, word: 0, next: ptr::null() }));
    loop {
        let newest = KNOWN.load(Ordering::Acquire);
        // SAFETY: made above and shared only by the exchange below; `newest` as in `known`.
        unsafe {
            (*new).next = newest;
            (*new).word = newest.as_ref().map_or(IS_MARK, |newest| newest.word + 1);
        }
        // Relaxed if it fails: it is loaded again, with acquire.
        if KNOWN.compare_exchange(newest, new, Ordering::Release, Ordering::Relaxed).is_ok() {
            // SAFETY: as above; it does not change any more.
            return unsafe { (*new).word };
        }
    }
}

/// A frame source that puts the thread's [`mark`] before the frames of another source.
pub struct MarkedFrames {
    inner: Option<Arc<dyn FrameSource>>,
}

impl MarkedFrames {
    /// Combines marks with another source, such as [`PythonFrames`](super::PythonFrames).
    #[must_use]
    pub fn new(inner: Option<Arc<dyn FrameSource>>) -> Arc<MarkedFrames> {
        Arc::new(MarkedFrames { inner })
    }

    /// Returns the source of a word that is not a mark.
    fn source_of(&self, word: usize) -> Option<&dyn FrameSource> {
        self.inner.as_deref().filter(|_| word & IS_MARK == 0)
    }
}

/// Writes this thread's mark, if it has one, then what `rest` writes after it.
#[inline(always)]
fn marked(words: &mut [usize], rest: impl FnOnce(&mut [usize]) -> usize) -> usize {
    let mark = MARK.try_with(Cell::get).unwrap_or(0);
    match words.split_first_mut() {
        Some((first, behind)) if mark != 0 => {
            *first = mark;
            1 + rest(behind)
        }
        _ => rest(words),
    }
}

impl FrameSource for MarkedFrames {
    fn capture(&self, words: &mut [usize]) -> usize {
        marked(words, |words| self.inner.as_ref().map_or(0, |inner| inner.capture(words)))
    }

    fn capture_for_native(&self, words: &mut [usize]) -> usize {
        marked(words, |words| self.inner.as_ref().map_or(0, |inner| inner.capture_for_native(words)))
    }

    fn name(&self, word: usize) -> Vec<SourceFrame> {
        if let Some(source) = self.source_of(word) {
            return source.name(word);
        }
        let known = known().find(|known| known.word == word);
        let frame = |known: &Known| SourceFrame { name: known.text.into(), filename: "??".into(), line: 0 };
        known.map(frame).into_iter().collect()
    }

    fn is_python(&self, word: usize) -> bool {
        self.source_of(word).is_some_and(|source| source.is_python(word))
    }

    fn code(&self, word: usize) -> Option<SourceCode> {
        self.source_of(word)?.code(word)
    }

    fn names_at_once(&self, word: usize) -> bool {
        self.source_of(word).is_none_or(|source| source.names_at_once(word))
    }
}

impl fmt::Debug for MarkedFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MarkedFrames").field("has_inner", &self.inner.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// A source of the two words 3 and 4.
    struct Two;

    impl FrameSource for Two {
        fn capture(&self, words: &mut [usize]) -> usize {
            let n = words.len().min(2);
            words[..n].copy_from_slice(&[3, 4][..n]);
            n
        }
        fn name(&self, word: usize) -> Vec<SourceFrame> {
            vec![SourceFrame { name: format!("inner {word}"), filename: "a".into(), line: 1 }]
        }
        fn is_python(&self, _: usize) -> bool {
            true
        }
    }

    fn names(source: &dyn FrameSource) -> Vec<String> {
        let mut words = [0; 8];
        let n = source.capture(&mut words);
        words[..n].iter().flat_map(|word| source.name(*word)).map(|frame| frame.name).collect()
    }

    #[test]
    fn a_mark_comes_first_while_it_lives_and_on_its_thread_alone() {
        let source = MarkedFrames::new(Some(Arc::new(Two)));
        assert_eq!(names(&*source), ["inner 3", "inner 4"]);
        let outer = mark("outer");
        assert_eq!(names(&*source), ["outer", "inner 3", "inner 4"]);
        let inner = mark("inner");
        assert_eq!(names(&*source)[0], "inner");
        assert_eq!(thread::scope(|scope| scope.spawn(|| names(&*source).len()).join().unwrap()), 2);
        drop(inner);
        assert_eq!(names(&*source)[0], "outer");
        drop(outer);
        assert_eq!(names(&*source).len(), 2);
        assert_eq!(names(&*MarkedFrames::new(None)).len(), 0);
    }

    #[test]
    fn a_mark_is_not_python_and_the_inner_source_keeps_its_own() {
        let source = MarkedFrames::new(Some(Arc::new(Two)));
        let _mark = mark("driver:module");
        let mut words = [0; 8];
        assert_eq!(source.capture(&mut words), 3);
        assert_eq!(
            words[..3].iter().map(|word| source.is_python(*word)).collect::<Vec<_>>(),
            [false, true, true]
        );
        assert!(source.names_at_once(words[0]) && !source.names_at_once(words[1]));
        assert_eq!(source.capture(&mut words[..1]), 1, "room for the mark alone");
    }

    #[test]
    fn threads_get_words_with_the_right_texts() {
        let texts: [&'static str; 4] = ["m:a", "m:b", "m:c", "m:d"];
        let source = MarkedFrames::new(None);
        thread::scope(|scope| {
            for first in 0..4 {
                let source = &source;
                scope.spawn(move || {
                    for i in 0..400 {
                        let text = texts[(first + i) % 4];
                        let _mark = mark(text);
                        assert_eq!(names(&**source), [text]);
                    }
                });
            }
        });
    }
}
