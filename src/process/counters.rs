//! Counts in the header of this process's tape, updated without a lock.

use std::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering},
};

/// The children that no fork handler saw; in the upper half, the programs that were started but could not be recorded.
pub(crate) static UNSEEN: Counter = Counter::new();

/// The chunks that are not in the file; in the upper half, the events that were not recorded.
pub(crate) static LOST: Counter = Counter::new();

/// One in the upper half of a counter.
const UPPER: u64 = 1 << 32;

/// A counter in the memory of the process's tape; nothing is counted without a tape.
#[derive(Debug)]
pub(crate) struct Counter(AtomicPtr<AtomicU64>);

impl Counter {
    const fn new() -> Counter {
        Counter(AtomicPtr::new(ptr::null_mut()))
    }

    /// Counts in `word` until it is forgotten.
    pub(crate) fn count_in(&self, word: &AtomicU64) {
        self.0.store(ptr::from_ref(word).cast_mut(), Ordering::Release);
    }

    /// Stops using a word whose memory is about to end.
    pub(crate) fn forget(&self, word: &AtomicU64) {
        let word = ptr::from_ref(word).cast_mut();
        // Relaxed if it fails: the word in use is another.
        let _ = self.0.compare_exchange(word, ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Counts one in the upper half.
    #[cold]
    pub(crate) fn count_upper(&self) {
        add(self.0.load(Ordering::Acquire), UPPER);
    }

    /// Counts one in the lower half, and then stops counting.
    #[cold]
    pub(crate) fn count_last(&self) {
        add(self.0.swap(ptr::null_mut(), Ordering::AcqRel), 1);
    }
}

fn add(word: *mut AtomicU64, n: u64) {
    if !word.is_null() {
        // SAFETY: a tape forgets its words before their memory ends, which is when no event of the process is under way.
        unsafe { &*word }.fetch_add(n, Ordering::Relaxed);
    }
}

/// Returns the lower and the upper half of a word.
pub(crate) fn halves(word: u64) -> (u64, u64) {
    (word % UPPER, word / UPPER)
}

/// Counts a program that this process starts but that cannot be recorded: in the tape of this process, or of its parent
/// if this is a child without a tape.
///
/// ```
/// memreel::integrate::count_unrecorded(); // without a tape, it is counted nowhere
/// ```
pub fn count_unrecorded() {
    UNSEEN.count_upper();
}
