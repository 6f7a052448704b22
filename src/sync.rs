//! What the lock protocol is made of: std's, or loom's while `tests/loom.rs` tries every interleaving.
//!
//! `Arc` stays std's: loom's holds no trait object, and nothing here depends
//! on the order of its counts. A device's own lock stays std's too: it is
//! taken last and let go before anything else is asked for.
#![forbid(unsafe_code)]

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
