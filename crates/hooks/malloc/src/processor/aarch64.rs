//! On aarch64 the return address is in `x30`.

use std::{arch::asm, ffi::c_void};

/// Jumps to a function whose argument of this number, from 0 on, is the return address.
macro_rules! jump_with_caller {
    (1, $with:ident) => {
        std::arch::naked_asm!("mov x1, x30", "b {}", sym $with)
    };
    (2, $with:ident) => {
        std::arch::naked_asm!("mov x2, x30", "b {}", sym $with)
    };
}

pub(crate) use jump_with_caller;

/// Calls a function on another stack, which ends at `end`.
///
/// # Safety
/// The memory below `end`, which is a multiple of 16, is enough for the function and nothing else uses it; the function may
/// be called with `argument`.
pub(crate) unsafe fn call_on(
    end: *mut u8,
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
) {
    // SAFETY: the function keeps x20, as every function of C does, so the stack pointer is what it was.
    unsafe {
        asm!(
            "mov x20, sp",
            "mov sp, {end}",
            "blr {function}",
            "mov sp, x20",
            end = in(reg) end,
            function = in(reg) function,
            in("x0") argument,
            out("x20") _,
            clobber_abi("C"),
        );
    }
}
