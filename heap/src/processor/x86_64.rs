//! On x86-64 the return address is on the stack.

use std::{
    arch::{asm, global_asm},
    ffi::c_void,
};

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

// A byte of each thread, at a place that the loader fixes once: to look at it is no call, unlike with `thread_local`, so that it
// may be on the path of each request, also in a handler of a signal.
global_asm!(
    ".pushsection .tbss.memreel_heap_within, \"awT\", @nobits",
    ".globl memreel_heap_within",
    ".hidden memreel_heap_within",
    ".type memreel_heap_within, @object",
    ".size memreel_heap_within, 1",
    "memreel_heap_within:",
    ".zero 1",
    ".popsection",
);

/// Returns this thread's byte, 0 at first.
#[inline(always)]
pub(crate) fn mark() -> u8 {
    let mark: u32;
    // SAFETY: the byte is this thread's own.
    unsafe {
        asm!(
            "mov {place}, qword ptr [rip + memreel_heap_within@GOTTPOFF]",
            "movzx {mark:e}, byte ptr fs:[{place}]",
            place = out(reg) _,
            mark = out(reg) mark,
            options(nostack, preserves_flags, readonly),
        );
    }
    mark as u8
}

/// Sets this thread's byte.
#[inline(always)]
pub(crate) fn set_mark(mark: u8) {
    // SAFETY: the byte is this thread's own.
    unsafe {
        asm!(
            "mov {place}, qword ptr [rip + memreel_heap_within@GOTTPOFF]",
            "mov byte ptr fs:[{place}], {mark}",
            place = out(reg) _,
            mark = in(reg_byte) mark,
            options(nostack, preserves_flags),
        );
    }
}

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
