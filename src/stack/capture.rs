//! The return addresses of this thread, into a fixed buffer.

/// Deeper stacks lose their outermost frames.
pub(crate) const MAX_DEPTH: usize = 128;

/// The addresses of one captured stack, innermost first.
#[derive(Debug)]
pub(crate) struct Captured {
    addresses: [usize; MAX_DEPTH],
    len: usize,
}

impl Captured {
    /// The return addresses, innermost first.
    pub(crate) fn addresses(&self) -> &[usize] {
        &self.addresses[..self.len]
    }
}

/// Walks this thread's stack.
///
/// This is the one place that walks, so that one file decides how. memreel's
/// own frames are among the innermost; they are cut off when names are known.
#[inline(never)]
pub(crate) fn capture() -> Captured {
    let mut captured = Captured { addresses: [0; MAX_DEPTH], len: 0 };
    let mut push = |frame: &backtrace::Frame| {
        // Below the first frame of a thread some systems show one at address 0.
        let address = frame.ip().addr();
        if address != 0 {
            captured.addresses[captured.len] = address;
            captured.len += 1;
        }
        captured.len < MAX_DEPTH
    };
    // `backtrace::trace` would take a process-wide lock on every event: it
    // exists for Windows, whose dbghelp is not made for threads.
    #[cfg(unix)]
    // SAFETY: on Unix the walk is `_Unwind_Backtrace`, which reads only this
    // thread's stack and is safe to run on several threads at once.
    unsafe {
        backtrace::trace_unsynchronized(&mut push);
    }
    #[cfg(not(unix))]
    backtrace::trace(&mut push);
    captured
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn recurse(depth: usize) -> usize {
        if depth == 0 { capture().addresses().len() } else { std::hint::black_box(recurse(depth - 1)) }
    }

    #[test]
    fn depth_is_bounded_and_grows_with_the_stack() {
        let shallow = recurse(1);
        assert_eq!(recurse(11), shallow + 10);
        assert_eq!(recurse(1000), MAX_DEPTH);
    }
}
