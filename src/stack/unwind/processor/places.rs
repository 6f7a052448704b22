//! What a rule finds in a frame.

use std::arch::asm;

/// Where a rule finds the return address, and the caller's frame pointer. Where none was saved, both are one place or any: then
/// "the saved frame pointer" is read all the same, which saves a branch.
#[derive(Clone, Copy)]
pub(in super::super) struct Places {
    pub(in super::super) slot: usize,
    pub(in super::super) saved: usize,
}

/// Returns `number`, and keeps the branch around it: a conditional move would wait for the condition.
#[inline(always)]
pub(in super::super) fn kept_apart(mut number: usize) -> usize {
    // SAFETY: no instruction at all. Not `pure`, or it would be moved out of the branch.
    unsafe { asm!("/* {} */", inout(reg) number, options(nomem, nostack, preserves_flags)) };
    number
}
