//! Locks, atomics and thread-locals: std's, or loom's while `tests/loom.rs` tries every interleaving.
//!
//! `Arc` is always std's: loom's does not hold trait objects, and nothing here depends
//! on the order of its counts. A device's own lock is always std's too: it is
//! taken last and released before another lock is taken.

#[cfg(not(loom))]
pub(crate) use std::{
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, fence},
    },
    thread_local,
};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, fence},
};

/// `thread_local!` of loom, whose threads share one thread of the system. Its macro predates
/// `const` blocks.
#[cfg(loom)]
macro_rules! loom_thread_local {
    ($(#[$meta:meta])* static $name:ident: $type:ty = const { $init:expr };) => {
        loom::thread_local! { $(#[$meta])* static $name: $type = $init; }
    };
}

#[cfg(loom)]
pub(crate) use loom_thread_local as thread_local;

/// Waits until every load before has its value, so that a counter which is read
/// next shows a later time, and until a counter that was read before has its value.
#[inline(always)]
pub(crate) fn settle_loads() {
    // A fence orders memory, and the counter is not memory.
    fence(std::sync::atomic::Ordering::SeqCst);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has the instruction.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: it touches neither memory nor registers.
    unsafe {
        std::arch::asm!("isb", options(nostack, preserves_flags));
    }
}

/// Reads the processor's own counter, in ticks, where one instruction does; returns 0 elsewhere.
/// The caller must check that it runs evenly.
#[inline(always)]
pub(crate) fn counter() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has the instruction, and Linux allows it unless a program
    // opts out.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    0
}

/// Reads the counter after every load before has its value. Like [`counter`], but only for processors
/// whose counter is known to run evenly: they all have this instruction.
///
/// loom sees a fence here. On x86-64 none is needed: loads keep their order, as
/// stores do, so a thread that sees what another stored after reading its counter
/// reads a later time; `cut` in `recorder/tape.rs` relies on this too.
#[inline(always)]
pub(crate) fn counter_after_loads() -> u64 {
    #[cfg(loom)]
    fence(std::sync::atomic::Ordering::SeqCst);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // The processor waits; the fence makes the compiler keep the order.
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        let mut processor = 0;
        // SAFETY: the caller checked the counter, which requires this instruction; it writes the
        // processor's number to a local.
        unsafe { std::arch::x86_64::__rdtscp(&raw mut processor) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    0
}
