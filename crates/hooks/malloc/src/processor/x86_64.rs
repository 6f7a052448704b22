//! On x86-64 the return address is on the stack.

use std::{arch::asm, ffi::c_void};

/// Jumps to a function whose argument of this number, from 0 on, is the return address.
macro_rules! jump_with_caller {
    (1, $with:ident) => {
        std::arch::naked_asm!("mov rsi, [rsp]", "jmp {}", sym $with)
    };
    (2, $with:ident) => {
        std::arch::naked_asm!("mov rdx, [rsp]", "jmp {}", sym $with)
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
    // SAFETY: the function keeps r12, as every function of C does, so the stack pointer is what it was.
    unsafe {
        asm!(
            "mov r12, rsp",
            "mov rsp, {end}",
            "call {function}",
            "mov rsp, r12",
            end = in(reg) end,
            function = in(reg) function,
            in("rdi") argument,
            out("r12") _,
            clobber_abi("C"),
        );
    }
}
