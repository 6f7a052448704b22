//! Counts failed driver calls, by function and status, and reports them in the folder of the run (`told.rs`).
#![forbid(unsafe_code)]

use std::{
    ptr,
    sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering},
};

use super::{entry::Entry, told, types::Status};

/// A function, a status other than 0, and how often the function returned it.
struct Count {
    entry: AtomicPtr<Entry>,
    status: AtomicI32,
    n: AtomicU32,
}

/// The most pairs of a function and a status.
const N_COUNTS: usize = 64;

static COUNTS: [Count; N_COUNTS] = [const {
    Count { entry: AtomicPtr::new(ptr::null_mut()), status: AtomicI32::new(0), n: AtomicU32::new(0) }
}; N_COUNTS];

/// Up to this number each failure is reported, then each doubling.
const EACH: u32 = 16;

/// Failures that show nothing about a call: the driver ends with the program, and some have their own line.
const EXPECTED: [Status; 3] = [Status::OUT_OF_MEMORY, Status(4), Status(600)];

/// Counts a call that failed.
#[cold]
pub(crate) fn note(entry: &'static Entry, status: Status) {
    // A program may query functions that a driver does not have.
    if EXPECTED.contains(&status) || entry.name == "cuGetProcAddress" {
        return;
    }
    let this = ptr::from_ref(entry).cast_mut();
    for count in &COUNTS {
        // Relaxed: a count, which is all that is read. The function is stored last, so that its status is there.
        let taken = count.status.compare_exchange(0, status.0, Ordering::AcqRel, Ordering::Acquire);
        if taken.is_ok() {
            count.entry.store(this, Ordering::Release);
        }
        let is_status = taken.is_ok() || taken == Err(status.0);
        if is_status && count.entry.load(Ordering::Acquire) == this {
            let n = count.n.fetch_add(1, Ordering::Relaxed) + 1;
            if n <= EACH || n.is_power_of_two() {
                told::tell_call(entry.symbol, status.0, n);
            }
            return;
        }
    }
}
