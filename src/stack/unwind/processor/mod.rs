//! What the walk must know of the processor: its registers, what a rule is in 29 bits, and how a row of the unwind tables
//! becomes one.
//!
//! | item | what it is |
//! | --- | --- |
//! | `here` | the registers of the function that it is inlined into |
//! | `CODE_ALIGN_BITS` | the low bits that are 0 in every address of code |
//! | `return_address` | the address in a word of the stack |
//! | `SIGNAL_RETURN` | the code by which a handler returns, where tables do not tell it |
//! | `TABLES` | whose numbers of registers and instructions the tables have |
//! | `rule_of` | a row of the tables as a rule |
//! | `Rule` | `stop`, `is_frame`, `counts_from_bp`, `saves_bp`, `has_frame_record`, and where things are: `places`, `is_within`, `saved_slot`, `caller_sp` |
//! | `Depth` | how far the return address is below the caller's stack pointer, where that is not always one word |

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::arch::asm;

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::*;

/// Where a rule finds the return address, and the caller's frame pointer. Where none was saved, both are one place or any: then
/// "the saved frame pointer" is read all the same, which saves a branch.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub(super) slot: usize,
    pub(super) saved: usize,
}

/// Returns `number`, and keeps the branch around it: a conditional move would wait for the condition.
#[inline(always)]
pub(super) fn kept_apart(mut number: usize) -> usize {
    // SAFETY: no instruction at all. Not `pure`, or it would be moved out of the branch.
    unsafe { asm!("/* {} */", inout(reg) number, options(nomem, nostack, preserves_flags)) };
    number
}
