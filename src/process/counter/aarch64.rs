//! The virtual counter of aarch64: 1 GHz since version 8.6 of the architecture, a few tens of MHz before.

use std::arch::asm;

pub(super) const MAY_BE_SLOW: bool = true;

/// `isb` alone would order the counter after a load only if a branch depended on the load; `dsb` waits for all loads.
#[inline(always)]
pub(super) fn wait_for_loads() {
    // SAFETY: the instructions change neither memory nor registers. Not `nomem`: loads stay in front.
    unsafe { asm!("dsb ishld", "isb", options(nostack, preserves_flags)) };
}

#[inline(always)]
pub(super) fn read() -> u64 {
    let value;
    // SAFETY: Linux allows programs to read this register.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

#[inline(always)]
pub(super) fn read_after_loads() -> u64 {
    wait_for_loads();
    let value;
    // SAFETY: as in `read`. Not `nomem`: it stays behind the loads before, and in front of what follows.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) value, options(nostack, preserves_flags)) };
    value
}
