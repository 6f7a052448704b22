//! The steps to undo after a fork, in memory that is mapped for them: nothing allocates between the first step of a
//! fork and the last, because `malloc` may report to memreel, and may be locked itself.

use std::{marker::PhantomData, mem::MaybeUninit, ptr::NonNull};

/// Where the memory of steps is from.
///
/// # Safety
///
/// [`Pages::grow`] returns memory as described there, which nothing else uses.
pub unsafe trait Pages {
    /// Returns `n_bytes` of memory, aligned to 16. The first `n_before` bytes are moved from `first`, whose memory is freed,
    /// unless `n_before` is 0. Without memory, returns `None` and changes nothing. It must not call `malloc`.
    ///
    /// # Safety
    /// `first` and `n_before` are those of the last call, and the memory is not used any more.
    unsafe fn grow(first: NonNull<u8>, n_before: usize, n_bytes: usize) -> Option<NonNull<u8>>;

    /// Frees memory.
    ///
    /// # Safety
    /// The memory is from the last call of [`Pages::grow`], and is not used any more.
    unsafe fn free(first: NonNull<u8>, n_bytes: usize);
}

/// A lock, or something else that is undone after the fork.
pub(super) trait Step {
    /// Called in the child before anything is released.
    fn in_child(&mut self) {}
    /// Called in both processes.
    fn release(&mut self) {}
}

/// The number of words of the largest step.
const N_WORDS: usize = if cfg!(memreel_loom) { 8 } else { 4 };

type Place = MaybeUninit<[usize; N_WORDS]>;

#[derive(Clone, Copy)]
enum Turn {
    InChild,
    Release,
    Drop,
}

/// A step of any type.
struct AnyStep {
    run: unsafe fn(NonNull<Place>, Turn),
    step: Place,
}

/// Runs a step.
///
/// # Safety
/// A step of type `S` is at `place`, and is used no more after [`Turn::Drop`].
unsafe fn run<S: Step>(place: NonNull<Place>, turn: Turn) {
    // SAFETY: the caller's promise.
    let step = unsafe { place.cast::<S>().as_mut() };
    match turn {
        Turn::InChild => step.in_child(),
        Turn::Release => step.release(),
        // SAFETY: the caller's promise.
        Turn::Drop => unsafe { std::ptr::drop_in_place(step) },
    }
}

/// The steps of a fork. The memory is reused by the next fork.
pub(super) struct Steps<P: Pages> {
    first: NonNull<AnyStep>,
    len: usize,
    capacity: usize,
    pages: PhantomData<fn() -> P>,
}

// SAFETY: `push` takes steps that may be sent, and the memory is this value's alone.
unsafe impl<P: Pages> Send for Steps<P> {}

impl<P: Pages> Steps<P> {
    pub(super) const fn new() -> Steps<P> {
        Steps { first: NonNull::dangling(), len: 0, capacity: 0, pages: PhantomData }
    }

    /// Adds a step; returns whether there was memory for it. If not, the step is dropped.
    pub(super) fn push<S: Step + 'static>(&mut self, step: S) -> bool {
        const { assert!(size_of::<S>() <= size_of::<Place>() && align_of::<S>() <= align_of::<Place>()) };
        if self.len == self.capacity && !self.grow() {
            return false;
        }
        // SAFETY: within the memory, where no step is yet; the place has room for the step.
        unsafe {
            let new = self.first.add(self.len);
            new.write(AnyStep { run: run::<S>, step: Place::uninit() });
            NonNull::from(&mut (*new.as_ptr()).step).cast::<S>().write(step);
        }
        self.len += 1;
        true
    }

    /// Runs what the child does, in the order in which the steps were added.
    pub(super) fn in_child(&mut self) {
        (0..self.len).for_each(|n| self.run(n, Turn::InChild));
    }

    /// Releases everything, last first, but drops nothing.
    pub(super) fn release(&mut self) {
        (0..self.len).rev().for_each(|n| self.run(n, Turn::Release));
    }

    /// Drops all steps.
    pub(super) fn clear(&mut self) {
        while let Some(n) = self.len.checked_sub(1) {
            self.run(n, Turn::Drop);
            self.len = n;
        }
    }

    fn run(&mut self, n: usize, turn: Turn) {
        assert!(n < self.len, "one of the steps");
        // SAFETY: `push` wrote this step, with the function of its type, and `clear` forgets each that it drops.
        unsafe {
            let step = self.first.add(n);
            ((*step.as_ptr()).run)(NonNull::from(&mut (*step.as_ptr()).step), turn);
        }
    }

    /// Makes room for more steps; returns whether that succeeded.
    fn grow(&mut self) -> bool {
        const FIRST: usize = 8192 / size_of::<AnyStep>();
        const { assert!(align_of::<AnyStep>() <= 16) };
        let capacity = (self.capacity * 2).max(FIRST);
        let n_bytes = |capacity: usize| capacity * size_of::<AnyStep>();
        // SAFETY: the memory is this value's, which uses what is returned from now on.
        let grown = unsafe { P::grow(self.first.cast(), n_bytes(self.capacity), n_bytes(capacity)) };
        let Some(first) = grown else { return false };
        (self.first, self.capacity) = (first.cast(), capacity);
        true
    }
}

impl<P: Pages> Drop for Steps<P> {
    fn drop(&mut self) {
        self.clear();
        if self.capacity > 0 {
            // SAFETY: from `grow`, and used no more.
            unsafe { P::free(self.first.cast(), self.capacity * size_of::<AnyStep>()) };
        }
    }
}

#[cfg(all(test, not(memreel_loom)))]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::testing::Forking;

    struct Noted(Arc<Mutex<Vec<(usize, char)>>>, usize);

    impl Step for Noted {
        fn in_child(&mut self) {
            self.0.lock().unwrap().push((self.1, 'c'));
        }

        fn release(&mut self) {
            self.0.lock().unwrap().push((self.1, 'r'));
        }
    }

    #[test]
    fn each_step_is_run_in_its_turn_and_dropped_once() {
        let noted = Arc::default();
        let mut steps = Steps::<Forking>::new();
        for _ in 0..2 {
            let n = if cfg!(miri) { 300 } else { 5000 };
            assert!((0..n).all(|place| steps.push(Noted(Arc::clone(&noted), place))));
            steps.in_child();
            steps.release();
            assert_eq!(Arc::strong_count(&noted), n + 1);
            steps.clear();
            assert_eq!(Arc::strong_count(&noted), 1);
            let order = std::mem::take(&mut *noted.lock().unwrap());
            assert!(order.into_iter().eq((0..n).map(|n| (n, 'c')).chain((0..n).rev().map(|n| (n, 'r')))));
        }
    }
}
