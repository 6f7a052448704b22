//! What the lock protocol is made of: std's, or loom's while `tests/loom.rs` tries every interleaving.
//!
//! `Arc` stays std's: loom's holds no trait object, and nothing here depends
//! on the order of its counts. A device's own lock stays std's too: it is
//! taken last and let go before anything else is asked for.

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

/// loom's threads share one thread of the system, so its thread-locals must be
/// loom's; its macro predates `const` blocks.
#[cfg(loom)]
macro_rules! loom_thread_local {
    ($(#[$meta:meta])* static $name:ident: $type:ty = const { $init:expr };) => {
        loom::thread_local! { $(#[$meta])* static $name: $type = $init; }
    };
}

#[cfg(loom)]
pub(crate) use loom_thread_local as thread_local;

/// Waits until every load before has its value, so that a counter which is read
/// next tells a later time, and until a counter that was read has told it.
#[inline(always)]
pub(crate) fn settle_loads() {
    // A fence orders memory, and the counter is not in it.
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

/// The processor's own counter, where one instruction reads it; 0 elsewhere.
/// Whether it runs evenly is the caller's question.
#[inline(always)]
pub(crate) fn counter() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has the instruction, and Linux lets programs use it unless
    // they ask it not to.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    0
}

/// As [`counter`], read when every load before has its value. Only where the counter is known to run
/// evenly: that is asked of processors that have this instruction.
///
/// loom sees a fence here. On x86-64 none is needed: loads keep their order, as
/// stores do, so whoever sees what a thread stored after it read its counter
/// reads a later time; `cut` in `recorder/tape.rs` relies on that too.
#[inline(always)]
pub(crate) fn counter_after_loads() -> u64 {
    #[cfg(loom)]
    fence(std::sync::atomic::Ordering::SeqCst);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // The processor waits, and the compiler has to be told.
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        let mut processor = 0;
        // SAFETY: the caller found the counter good, which takes this instruction; it writes the
        // processor's number to a local.
        unsafe { std::arch::x86_64::__rdtscp(&raw mut processor) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    0
}
