//! The time-stamp counter of x86-64.

use std::{
    arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc},
    sync::atomic::{Ordering, compiler_fence},
};

/// The counter runs at gigahertz.
pub(super) const MAY_BE_SLOW: bool = false;

#[inline(always)]
pub(super) fn wait_for_loads() {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { _mm_lfence() };
}

#[inline(always)]
pub(super) fn read() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux allows it unless a program
    // opts out.
    unsafe { _rdtsc() }
}

#[inline(always)]
pub(super) fn read_after_loads() -> u64 {
    // The processor waits by itself; this keeps the compiler from moving loads.
    compiler_fence(Ordering::SeqCst);
    let mut processor = 0;
    // SAFETY: a processor whose counter runs at a constant rate has this instruction; it writes the
    // processor's number to a local variable.
    unsafe { __rdtscp(&raw mut processor) }
}
