//! Finds the bounds of this thread's stack.

use std::{
    mem::MaybeUninit,
    ops::Range,
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
};

/// The stacks of the first threads that captured, each with its start and end. A later thread may get the stack of an
/// earlier one, which is then here only once.
static KNOWN: [[AtomicUsize; 2]; 1024] = [const { [const { AtomicUsize::new(0) }; 2] }; 1024];
static N_KNOWN: AtomicUsize = AtomicUsize::new(0);

/// Records the range of a stack. No lock is taken. An entry is written once, by the thread that claimed it with an
/// exchange. Relaxed: the end, which is stored last and with release, makes the start visible.
pub(super) fn note(stack: &Range<usize>) {
    if stack.is_empty() || known_stacks().any(|known| known == *stack) {
        return;
    }
    if let Some([start, end]) = KNOWN.get(N_KNOWN.fetch_add(1, Ordering::Relaxed)) {
        start.store(stack.start, Ordering::Relaxed);
        end.store(stack.end, Ordering::Release);
    }
}

/// Returns the stacks of threads that have captured, which may have ended.
pub(in crate::stack) fn known_stacks() -> impl Iterator<Item = Range<usize>> {
    let n_known = N_KNOWN.load(Ordering::Relaxed).min(KNOWN.len());
    KNOWN[..n_known].iter().filter_map(|[start, end]| {
        let end = end.load(Ordering::Acquire);
        // An entry that is being written has no end yet.
        (end != 0).then(|| start.load(Ordering::Relaxed)..end)
    })
}

/// The size beyond which a stack is left to the portable walk. Without a limit on its size (`ulimit -s unlimited`) the
/// main thread's stack is reported to start at the end of the heap, and the stacks of coroutines would be inside it.
const DEEPEST_BYTES: usize = 1 << 30;

/// Returns the addresses of this thread's stack; empty if the system does not know them.
///
/// Slow (30 us on the main thread), and it may allocate: call it once per thread.
#[cold]
pub(super) fn stack_of_this_thread() -> Range<usize> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut lowest = ptr::null_mut();
    let mut n_bytes = 0;
    // SAFETY: `pthread_getattr_np` fills the attributes when it returns 0, and
    // only then are they read and destroyed.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return 0..0;
        }
        if libc::pthread_attr_getstack(attributes.as_ptr(), &mut lowest, &mut n_bytes) != 0 {
            n_bytes = 0;
        }
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
    }
    let end = lowest.addr().saturating_add(n_bytes);
    end - n_bytes.min(DEEPEST_BYTES)..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_is_inside() {
        let local = 0_u8;
        let stack = stack_of_this_thread();
        assert!(stack.contains(&ptr::from_ref(&local).addr()), "{stack:x?}");
    }

    #[test]
    fn a_stack_is_known_once() {
        let stack = stack_of_this_thread();
        (0..3).for_each(|_| note(&stack));
        assert_eq!(known_stacks().filter(|known| *known == stack).count(), 1);
    }
}
