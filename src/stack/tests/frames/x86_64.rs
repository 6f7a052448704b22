//! The frames of x86-64.

use std::{arch::global_asm, ffi::c_void};

use super::{Call, Frame};

unsafe extern "C-unwind" {
    fn memreel_chain_tempting(call: Call, data: *mut c_void);
    fn memreel_chain_last(call: Call, data: *mut c_void);
}

/// The offset of an instruction in `memreel_chain_sized` from which on the frame is counted from its frame pointer.
pub(in super::super) const BY_POINTER: usize = 7;

/// The frames with a fixed size whose rules fit.
pub(in super::super) const FRAMES: [Frame; 2] = [memreel_chain_tempting, memreel_chain_last];

// Each calls `call(data)` and returns. Their frames: of a size given at run
// time; without a frame pointer but with `rbp` pointing at two words that look
// like a frame; aligned as compilers do it for vectors, with a rule that does not
// fit 29 bits.
global_asm!(
    ".globl memreel_chain_sized",
    ".hidden memreel_chain_sized",
    ".type memreel_chain_sized, @function",
    "memreel_chain_sized:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "sub rsp, rdx",
    "and rsp, -16",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "leave",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size memreel_chain_sized, . - memreel_chain_sized",
    ".globl memreel_chain_tempting",
    ".hidden memreel_chain_tempting",
    ".type memreel_chain_tempting, @function",
    "memreel_chain_tempting:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "sub rsp, 48",
    ".cfi_def_cfa_offset 64",
    "mov rax, [rsp + 56]",
    "mov [rsp + 24], rax",
    "lea rax, [rsp + 48]",
    "mov [rsp + 16], rax",
    "lea rbp, [rsp + 16]",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "add rsp, 48",
    ".cfi_def_cfa_offset 16",
    "pop rbp",
    ".cfi_def_cfa_offset 8",
    ".cfi_restore rbp",
    "ret",
    ".cfi_endproc",
    ".size memreel_chain_tempting, . - memreel_chain_tempting",
    ".globl memreel_chain_aligned",
    ".hidden memreel_chain_aligned",
    ".type memreel_chain_aligned, @function",
    "memreel_chain_aligned:",
    ".cfi_startproc",
    "lea r10, [rsp + 8]",
    ".cfi_def_cfa r10, 0",
    "and rsp, -64",
    "push qword ptr [r10 - 8]",
    "push rbp",
    "mov rbp, rsp",
    ".cfi_escape 0x10, 0x06, 0x02, 0x76, 0x00",
    "push r10",
    ".cfi_escape 0x0f, 0x03, 0x76, 0x78, 0x06",
    "sub rsp, 8",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "add rsp, 8",
    "pop r10",
    ".cfi_def_cfa r10, 0",
    "pop rbp",
    ".cfi_same_value rbp",
    "lea rsp, [r10 - 8]",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size memreel_chain_aligned, . - memreel_chain_aligned",
    // The call is the last instruction: the return address is in the next function, which has another frame. The callee
    // also removes this frame, and returns to its caller.
    ".globl memreel_chain_last",
    ".hidden memreel_chain_last",
    ".type memreel_chain_last, @function",
    "memreel_chain_last:",
    ".cfi_startproc",
    "sub rsp, 24",
    ".cfi_def_cfa_offset 32",
    "call memreel_chain_twice",
    ".cfi_endproc",
    ".size memreel_chain_last, . - memreel_chain_last",
    ".globl memreel_chain_twice",
    ".hidden memreel_chain_twice",
    ".type memreel_chain_twice, @function",
    "memreel_chain_twice:",
    ".cfi_startproc",
    ".cfi_def_cfa_offset 4096",
    "nop",
    ".cfi_def_cfa_offset 8",
    "sub rsp, 8",
    ".cfi_def_cfa_offset 16",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "add rsp, 40",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    ".size memreel_chain_twice, . - memreel_chain_twice",
);

/// Returns the instructions of a `bounce` whose frame has `n_bytes` below the return address. It stores the first word
/// of its second argument at `lure_at`.
pub(in super::super) fn bounce(n_bytes: usize, lure_at: usize) -> String {
    format!(
        r#""sub rsp, {n_bytes}", ".cfi_def_cfa_offset {}", "mov rax, [rsi]", "mov [rsp + {lure_at}], rax",
  "mov rax, rdi", "mov rdi, rsi", "call rax", "add rsp, {n_bytes}", ".cfi_def_cfa_offset 8", "ret""#,
        n_bytes + 8
    )
}
