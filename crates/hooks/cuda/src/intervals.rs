//! Decides when to look at the devices: at the end of a call of the program, if the last look was long ago.
//!
//! A thread of this library would look more evenly, but the program could notice it.
#![forbid(unsafe_code)]

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// How often the devices are looked at, if the program makes calls.
const INTERVAL_NS: u64 = 50_000_000;

/// A program that reaches peak after peak is looked at ten times as often, and not more.
const SHORTEST_NS: u64 = INTERVAL_NS / 10;

/// Whether there is anything to look at.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Whether a look is wanted soon. Relaxed, as the next: they decide when to look, and not what a look reads.
static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// When the last look started.
static LAST_NS: AtomicU64 = AtomicU64::new(0);

/// Starts looking, at the end of the call in progress: there is a context.
pub(crate) fn begin() {
    IS_ON.store(true, Ordering::Release);
    want();
}

/// Stops looking, in a child of `fork`: it has no context.
pub(crate) fn end() {
    IS_ON.store(false, Ordering::Release);
}

/// Makes a look due soon.
pub(crate) fn want() {
    IS_WANTED.store(true, Ordering::Relaxed);
}

/// Returns whether a look is due, which the calling thread then makes.
#[inline]
pub(crate) fn take_due() -> bool {
    IS_ON.load(Ordering::Acquire) && is_late()
}

fn is_late() -> bool {
    let wait_ns = if IS_WANTED.load(Ordering::Relaxed) { SHORTEST_NS } else { INTERVAL_NS };
    let (now_ns, last_ns) = (now_ns(), LAST_NS.load(Ordering::Relaxed));
    let is_due = now_ns >= last_ns.saturating_add(wait_ns)
        && LAST_NS.compare_exchange(last_ns, now_ns, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if is_due {
        IS_WANTED.store(false, Ordering::Relaxed);
    }
    is_due
}

/// The time since the first question, and some: the first look is due at once.
fn now_ns() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let since = FIRST.get_or_init(Instant::now).elapsed() + Duration::from_secs(1);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
