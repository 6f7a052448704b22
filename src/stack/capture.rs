//! The return addresses of this thread, and the number of the stack they make.

use super::{
    interner::StackInterner,
    method::{StackMethod, stack_method},
    unwind,
};
use crate::event::StackId;

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
    #[cfg_attr(not(test), expect(dead_code, reason = "who records keeps numbers"))]
    pub(crate) fn addresses(&self) -> &[usize] {
        &self.addresses[..self.len]
    }
}

/// Captures this thread's stack and numbers it.
///
/// Once this thread has captured, and once the addresses of a stack were met
/// by any, it neither allocates nor locks nor calls the loader; a stack that
/// was never met before takes the table's lock, once.
/// memreel's own frames are among the innermost; they are cut off when names are known.
#[inline(never)]
pub(crate) fn capture(table: &StackInterner) -> StackId {
    let method = stack_method();
    let walked = if method == StackMethod::Backtrace { None } else { unwind::capture(table, method) };
    walked.unwrap_or_else(|| capture_portably(table))
}

/// Walks this thread's stack.
#[cfg(test)]
#[inline(never)]
pub(crate) fn capture_addresses() -> Captured {
    capture_by(stack_method())
}

/// As [`capture_addresses`], by a method of the caller's.
#[cfg(test)]
#[inline(never)]
pub(super) fn capture_by(method: StackMethod) -> Captured {
    let mut captured = Captured { addresses: [0; MAX_DEPTH], len: 0 };
    let walked = if method == StackMethod::Backtrace {
        None
    } else {
        unwind::capture_addresses(&mut captured.addresses, method)
    };
    captured.len = walked.unwrap_or_else(|| walk_portably(&mut captured.addresses));
    captured
}

#[cold]
#[inline(never)]
fn capture_portably(table: &StackInterner) -> StackId {
    let mut addresses = [0; MAX_DEPTH];
    let len = walk_portably(&mut addresses);
    table.intern(&addresses[..len])
}

/// The walk of the system's unwinder, which every machine has.
#[cold]
#[inline(never)]
fn walk_portably(addresses: &mut [usize; MAX_DEPTH]) -> usize {
    let mut len = 0;
    let mut push = |frame: &backtrace::Frame| {
        // Below the first frame of a thread some systems show one at address 0.
        let address = frame.ip().addr();
        if address != 0 {
            addresses[len] = address;
            len += 1;
        }
        len < MAX_DEPTH
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
    len
}

/// A function of this room, compiled in this file: its address tells where
/// memreel's sources were when it was built, as the line tables spell it.
/// `file!()` would be relative to a folder that a reader cannot know.
#[inline(never)]
pub(super) fn landmark() -> &'static str {
    // A text of its own keeps the linker from folding it into an equal function.
    concat!("compiled in ", file!())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn recurse(depth: usize) -> usize {
        if depth == 0 {
            capture_addresses().addresses().len()
        } else {
            std::hint::black_box(recurse(depth - 1))
        }
    }

    #[test]
    fn depth_is_bounded_and_grows_with_the_stack() {
        let shallow = recurse(1);
        assert_eq!(recurse(11), shallow + 10);
        assert_eq!(recurse(1000), MAX_DEPTH);
    }
}
