//! Captures this thread's stack as a number.

use super::{
    choice::stack_method,
    intern::{Frames, StackInterner, limits::MAX_DEPTH},
    method::StackMethod,
    unwind,
};
use memreel_snapshot::words::StackId;

/// Captures this thread's stack and returns its number.
///
/// Once this thread has captured, and any thread has seen this stack, this neither allocates nor locks nor calls the
/// loader. A stack that is new to the interner takes the interner's lock once. memreel's own frames are among the
/// innermost; they are removed when names are known.
#[inline(never)]
pub(crate) fn capture(interner: &StackInterner) -> StackId {
    if interner.frames() == Frames::Source {
        return interner.intern_source();
    }
    let method = stack_method();
    let walked = if method == StackMethod::Backtrace { None } else { unwind::capture(interner, method) };
    walked.unwrap_or_else(|| capture_portably(interner))
}

#[cold]
#[inline(never)]
fn capture_portably(interner: &StackInterner) -> StackId {
    let mut addresses = [0; MAX_DEPTH];
    let len = walk_portably(&mut addresses);
    interner.intern(&addresses[..len])
}

/// Walks with the system's unwinder, which exists on every machine.
#[cold]
#[inline(never)]
fn walk_portably(addresses: &mut [usize; MAX_DEPTH]) -> usize {
    let mut len = 0;
    let mut push = |frame: &backtrace::Frame| {
        // Below a thread's first frame, some systems have a frame at address 0.
        let address = frame.ip().addr();
        if address != 0 {
            addresses[len] = address;
            len += 1;
        }
        len < MAX_DEPTH
    };
    // `backtrace::trace` would take a process-wide lock on every event: the lock
    // exists for Windows, whose dbghelp does not support threads.
    #[cfg(unix)]
    // SAFETY: on Unix the walk is `_Unwind_Backtrace`, which reads only this
    // thread's stack and is safe to run on several threads at once.
    unsafe {
        backtrace::trace_unsynchronized(&mut push);
    }
    #[cfg(not(unix))]
    backtrace::trace(&mut push);
    len
}

#[cfg(test)]
mod tests {
    use std::{
        hint::black_box,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use super::{
        super::intern::{FrameSource, SourceFrame},
        *,
    };

    #[inline(never)]
    fn recurse(interner: &StackInterner, depth: usize) -> usize {
        if depth == 0 {
            black_box(interner.addresses(capture(interner)).len())
        } else {
            black_box(recurse(interner, depth - 1))
        }
    }

    #[test]
    fn depth_is_bounded_and_grows_with_the_stack() {
        let interner = StackInterner::new(100);
        let lens: Vec<usize> =
            black_box(vec![1, 11, 1000]).into_iter().map(|depth| recurse(&interner, depth)).collect();
        assert_eq!(lens[1], lens[0] + 10);
        assert_eq!(lens[2], MAX_DEPTH);
    }

    /// Returns two words, of which the test chooses the first.
    struct Fixed(AtomicUsize);

    impl FrameSource for Fixed {
        fn capture(&self, words: &mut [usize]) -> usize {
            words[..2].copy_from_slice(&[self.0.load(Ordering::Relaxed), 5]);
            2
        }
        fn name(&self, _: usize) -> Vec<SourceFrame> {
            Vec::new()
        }
    }

    #[test]
    fn a_sources_frames_are_asked_for_at_each_capture() {
        let interner = StackInterner::new(100);
        let source = Arc::new(Fixed(AtomicUsize::new(4)));
        interner.set_source(source.clone());
        let mut stacks = Vec::new();
        // A list whose contents the compiler does not know: one call, not three.
        for word in black_box(vec![4, 4, 8]) {
            source.0.store(word, Ordering::Relaxed);
            stacks.push(capture(&interner));
        }
        assert_eq!(stacks[0], stacks[1]);
        assert_ne!(stacks[0], stacks[2]);
        assert_eq!(interner.parts(stacks[2]).source, [8, 5]);
        assert_eq!(interner.parts(stacks[2]).native, interner.parts(stacks[0]).native);
    }
}
