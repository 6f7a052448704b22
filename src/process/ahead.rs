//! Asks the processor for memory that will be needed soon.

/// Loads a value into the processor's cache without waiting for it.
#[inline(always)]
pub(crate) fn load<T>(value: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: it reads nothing that the program sees.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) value, options(nostack, preserves_flags, readonly));
    }
    _ = value;
}
