//! `dlsym`, which hands out wrappers in place of the driver's functions.
//!
//! The loader looks at its caller: `RTLD_NEXT` means the libraries behind the caller's. So every call that is not for
//! the driver is a jump, which keeps the caller's return address on the stack.

use std::{
    arch::naked_asm,
    ffi::{CStr, c_char, c_void},
};

use super::{
    loader::{self, DLSYM, find_dlsym},
    lookup,
};

/// The loader's `dlsym`, in front of which this library is.
///
/// # Safety
/// The duties of `dlsym`: `name` ends in nul.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void {
    // A name that begins with "cu" may be the driver's, and not for the pseudo libraries RTLD_NEXT (-1) and
    // RTLD_DEFAULT (0), whose order has this library's functions where they belong.
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

/// Returns the wrapper for a function of the driver; null for everything else, for which the loader is asked.
///
/// # Safety
/// `name` ends in nul, and `library` is a library of the loader.
unsafe extern "C" fn wrapped(library: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(entry) = lookup::by_symbol(name) else { return std::ptr::null_mut() };
    // SAFETY: the caller's promise; the loader does not look at the caller for a library that is named.
    let found = loader::of(library, name);
    if !found.is_null() && loader::is_of_driver(found) { entry.replace(found) } else { std::ptr::null_mut() }
}
