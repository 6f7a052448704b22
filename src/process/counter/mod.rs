//! The processor's counter, which runs at a constant rate, and its order among loads.

use std::sync::atomic::{Ordering, fence};

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod aarch64;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_64;

#[cfg(all(target_arch = "aarch64", not(miri)))]
use aarch64 as processor;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use x86_64 as processor;

/// For processors without an instruction that reads a counter.
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
mod processor {
    pub(super) const MAY_BE_SLOW: bool = false;

    pub(super) fn wait_for_loads() {}

    pub(super) fn read() -> u64 {
        0
    }

    pub(super) fn read_after_loads() -> u64 {
        0
    }
}

/// Whether the counter may tick so slowly that many events have the same number.
pub(crate) const MAY_BE_SLOW: bool = processor::MAY_BE_SLOW;

/// Load fence for timestamp reads: earlier loads complete before a subsequent read of the counter, and an
/// earlier read of the counter completes before this returns.
#[inline(always)]
pub(crate) fn settle_loads() {
    // A memory fence alone does not order the counter, which is not memory.
    fence(Ordering::SeqCst);
    processor::wait_for_loads();
}

/// Reads the processor's counter where one instruction does so; returns 0 elsewhere. The caller must know
/// that the counter runs at a constant rate.
#[inline(always)]
pub(crate) fn counter() -> u64 {
    processor::read()
}

/// Reads the processor's counter after all earlier loads have completed. Otherwise like [`counter`].
///
/// A thread that sees a value stored after another thread read its counter reads a later time; `Tape::cut` relies on this too. On x86-64 no fence is needed: loads keep their
/// order, and so do stores. On aarch64 the instruction that waits for loads is a fence, and the store that hands on a
/// value is a release after the event, whose bytes contain the counter's value.
#[inline(always)]
pub(crate) fn counter_after_loads() -> u64 {
    processor::read_after_loads()
}

#[cfg(all(test, not(miri), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;

    #[test]
    fn it_goes_forward() {
        let start = counter();
        settle_loads();
        let next = counter_after_loads();
        std::thread::sleep(std::time::Duration::from_millis(1));
        let end = counter();
        assert!(0 < start && start <= next && next < end, "{start} {next} {end}");
    }
}
