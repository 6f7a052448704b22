//! The locations that a rule finds in a frame.

use std::arch::asm;

/// The locations of the return address and of the caller's frame pointer. If none was saved, both are the same, or the
/// second is arbitrary: "the saved frame pointer" is read nevertheless, which saves a branch.
#[derive(Clone, Copy)]
pub(in super::super) struct Places {
    pub(in super::super) slot: usize,
    pub(in super::super) saved: usize,
}

/// Returns `number`, keeping the branch around it: a conditional move would wait for the condition.
#[inline(always)]
pub(in super::super) fn kept_apart(mut number: usize) -> usize {
    // SAFETY: no instruction at all. Not `pure`, or it would be moved out of the branch.
    unsafe { asm!("/* {} */", inout(reg) number, options(nomem, nostack, preserves_flags)) };
    number
}
