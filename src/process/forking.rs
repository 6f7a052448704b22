//! A fork of this process: its time, what its thread marks and blocks meanwhile, and memory for what it undoes.

use std::{
    ptr::NonNull,
    time::{Duration, Instant},
};

use memreel_lockfree::forks::{Pages, Process};

use super::{guard::Guard, mask::Blocked, pause};

/// How long a fork waits for all locks together.
const PATIENCE: Duration = Duration::from_secs(2);

/// A fork that this thread makes.
pub(crate) struct Forking {
    until: Instant,
    _own: Guard,
    _signals: Blocked,
}

impl Process for Forking {
    fn own_work() -> impl Sized {
        // The list's allocations are the recorder's own. A report of them may re-enter the caller.
        Guard::enter()
    }

    fn begin() -> Option<Forking> {
        let until = Instant::now() + PATIENCE;
        Some(Forking { until, _own: Guard::enter()?, _signals: Blocked::new() })
    }

    fn again(&self, n: u32) -> bool {
        let has_time = n < 100 || Instant::now() < self.until;
        if has_time {
            pause::again(n);
        }
        has_time
    }
}

// SAFETY: each call returns a mapping of its own, which the kernel grows with its contents.
#[cfg(all(target_os = "linux", not(miri)))]
unsafe impl Pages for Forking {
    unsafe fn grow(first: NonNull<u8>, n_before: usize, n_bytes: usize) -> Option<NonNull<u8>> {
        use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap};
        // SAFETY: a new mapping, or that of the last call, by the contract.
        let grown = unsafe {
            match n_before {
                0 => {
                    let access = ProtFlags::READ | ProtFlags::WRITE;
                    mmap_anonymous(std::ptr::null_mut(), n_bytes, access, MapFlags::PRIVATE)
                }
                _ => mremap(first.as_ptr().cast(), n_before, n_bytes, MremapFlags::MAYMOVE),
            }
        };
        NonNull::new(grown.ok()?.cast())
    }

    unsafe fn free(first: NonNull<u8>, n_bytes: usize) {
        // SAFETY: mapped by `grow`, by the contract.
        let _ = unsafe { rustix::mm::munmap(first.as_ptr().cast(), n_bytes) };
    }
}

// SAFETY: no call returns memory.
#[cfg(not(all(target_os = "linux", not(miri))))]
unsafe impl Pages for Forking {
    unsafe fn grow(_: NonNull<u8>, _: usize, _: usize) -> Option<NonNull<u8>> {
        None
    }

    unsafe fn free(_: NonNull<u8>, _: usize) {}
}
