//! The steps to undo after a fork, in memory that is mapped for them: nothing allocates between the first step of a
//! fork and the last, because `malloc` may report to memreel, and may be locked itself.

use std::{mem::MaybeUninit, ptr::NonNull};

/// A lock, or something else that is undone after the fork.
pub(super) trait Step {
    /// Called in the child before anything is released.
    fn in_child(&mut self) {}
    fn release(&mut self) {}
}

/// The number of words of the largest step.
const N_WORDS: usize = if cfg!(loom) { 8 } else { 4 };

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
pub(super) struct Steps {
    first: NonNull<AnyStep>,
    len: usize,
    capacity: usize,
}

// SAFETY: `push` takes steps that may be sent, and the memory is this value's alone.
unsafe impl Send for Steps {}

impl Steps {
    pub(super) const fn new() -> Steps {
        Steps { first: NonNull::dangling(), len: 0, capacity: 0 }
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
    #[cfg(all(target_os = "linux", not(miri)))]
    fn grow(&mut self) -> bool {
        use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap};
        const FIRST: usize = 8192 / size_of::<AnyStep>();
        let (access, capacity) = (ProtFlags::READ | ProtFlags::WRITE, (self.capacity * 2).max(FIRST));
        let n_bytes = |capacity: usize| capacity * size_of::<AnyStep>();
        // SAFETY: a new mapping, or the one of this value, which alone uses it.
        let grown = unsafe {
            match self.capacity {
                0 => mmap_anonymous(std::ptr::null_mut(), n_bytes(capacity), access, MapFlags::PRIVATE),
                before => {
                    let first = self.first.as_ptr().cast();
                    mremap(first, n_bytes(before), n_bytes(capacity), MremapFlags::MAYMOVE)
                }
            }
        };
        let Some(first) = grown.ok().and_then(|first| NonNull::new(first.cast())) else { return false };
        (self.first, self.capacity) = (first, capacity);
        true
    }

    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn grow(&mut self) -> bool {
        false
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.clear();
        #[cfg(all(target_os = "linux", not(miri)))]
        if self.capacity > 0 {
            // SAFETY: mapped by `grow`, and used no more.
            let _ = unsafe {
                rustix::mm::munmap(self.first.as_ptr().cast(), self.capacity * size_of::<AnyStep>())
            };
        }
    }
}

#[cfg(all(test, target_os = "linux", not(any(miri, loom))))]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

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
        let mut steps = Steps::new();
        for _ in 0..2 {
            let n = 5000;
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
