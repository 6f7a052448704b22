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
/// next tells a later time. A fence orders memory, and the counter is not in it.
#[inline(always)]
pub(crate) fn settle_loads() {
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
