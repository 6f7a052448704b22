//! The jump on x86-64, where the return address is on the stack.

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
    naked_asm!(
        "lea rax, [rdi + 1]",
        "cmp rax, 1",
        "jbe 2f",
        "test rsi, rsi",
        "je 2f",
        "cmp byte ptr [rsi], 0x63",
        "jne 2f",
        "cmp byte ptr [rsi + 1], 0x75",
        "jne 2f",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {wrapped}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jne 3f",
        "2:",
        "mov rax, qword ptr [rip + {known}]",
        "test rax, rax",
        "je 4f",
        "jmp rax",
        "3:",
        "ret",
        "4:",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {find}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "je 3b",
        "jmp rax",
        wrapped = sym wrapped,
        known = sym DLSYM,
        find = sym find_dlsym,
    )
}
