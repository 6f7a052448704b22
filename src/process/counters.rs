//! Counts of this process in the header of its tape, which take no lock.

use std::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering},
};

/// The children that no handler of forks saw; in the upper half, the programs that were started and could not be recorded.
pub(crate) static UNSEEN: Counter = Counter::new();

/// The chunks that are not in the file; in the upper half, the events that were not recorded at all.
pub(crate) static LOST: Counter = Counter::new();

/// What the upper half of a counter counts in.
const UPPER: u64 = 1 << 32;

/// A count in memory of the process's tape; nothing is counted while there is none.
#[derive(Debug)]
pub(crate) struct Counter(AtomicPtr<AtomicU64>);

impl Counter {
    const fn new() -> Counter {
        Counter(AtomicPtr::new(ptr::null_mut()))
    }

    /// Has `word` count until it is forgotten.
    pub(crate) fn count_in(&self, word: &AtomicU64) {
        self.0.store(ptr::from_ref(word).cast_mut(), Ordering::Release);
    }

    /// Ends the use of a word, whose memory ends.
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

    /// Counts one in the lower half, and then no more.
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

/// Returns the lower half of a word, and the upper.
pub(crate) fn halves(word: u64) -> (u64, u64) {
    (word % UPPER, word / UPPER)
}

/// Counts a program that this process starts and that cannot be recorded, in the tape of this process, or of its parent in a child
/// that has none yet.
///
/// ```
/// memreel::integrate::count_unrecorded(); // without a tape, it is counted nowhere
/// ```
pub fn count_unrecorded() {
    UNSEEN.count_upper();
}
