//! The jump on aarch64, where the return address is in `x30`.

use std::{
    arch::naked_asm,
    ffi::{c_char, c_void},
};

use super::{
    super::loader::{DLSYM, find_dlsym},
    wrapped,
};

/// The loader's `dlsym`, which this library intercepts.
///
/// # Safety
/// The duties of `dlsym`: `name` ends in nul.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void {
    // A jump by x16 may arrive at a function of a library with branch protection.
    naked_asm!(
        "hint #34", // bti c
        "add x9, x0, #1",
        "cmp x9, #1",
        "b.ls 2f",
        "cbz x1, 2f",
        "ldrb w9, [x1]",
        "cmp w9, #0x63",
        "b.ne 2f",
        "ldrb w9, [x1, #1]",
        "cmp w9, #0x75",
        "b.ne 2f",
        "stp x29, x30, [sp, #-32]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "bl {wrapped}",
        "mov x9, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "cbnz x9, 3f",
        "2:",
        "adrp x16, {known}",
        "ldr x16, [x16, :lo12:{known}]",
        "cbz x16, 4f",
        "br x16",
        "3:",
        "mov x0, x9",
        "ret",
        "4:",
        "stp x29, x30, [sp, #-32]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "bl {find}",
        "mov x16, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "mov x9, #0",
        "cbz x16, 3b",
        "br x16",
        wrapped = sym wrapped,
        known = sym DLSYM,
        find = sym find_dlsym,
    )
}
