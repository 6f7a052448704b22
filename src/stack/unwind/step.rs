//! A frame and the step out of it: registers, the slot of the return address, its words.

use std::{arch::asm, mem::MaybeUninit, ptr};

use super::{super::limits::MAX_DEPTH, rule::Rule};

/// The state in which a frame is left: the instruction, and the two registers that rules count from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    pub(super) ip: usize,
    pub(super) sp: usize,
    pub(super) bp: usize,
}

impl Registers {
    /// The registers of the function that this is inlined into, which must not return before
    /// they are used.
    #[inline(always)]
    pub(super) fn here() -> Registers {
        let (ip, sp, bp);
        // SAFETY: three registers are read; nothing is written but the outputs.
        // The address is that of the second instruction, so the byte before it
        // is in the first, as with a return address and its call.
        unsafe {
            asm!(
                "lea {ip}, [rip]",
                "mov {sp}, rsp",
                "mov {bp}, rbp",
                ip = out(reg) ip,
                sp = out(reg) sp,
                bp = out(reg) bp,
                options(nomem, nostack, preserves_flags),
            );
        }
        Registers { ip, sp, bp }
    }
}

/// The step from one frame to its caller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The address on the stack of the return address.
    pub(super) slot: usize,
    /// The return address: the instruction at which the caller goes on.
    pub(super) word: usize,
    /// `rbp` in the caller.
    pub(super) bp: usize,
    /// The rule by which the frame was left.
    pub(super) rule: Rule,
}

/// The steps of one walk, innermost first; a walk writes a prefix of them.
pub(super) type Steps = [MaybeUninit<Step>; MAX_DEPTH];

/// Reads a word of this thread's stack.
///
/// # Safety
///
/// `address` is aligned, at or above the stack pointer, and below the stack's end.
#[inline(always)]
pub(super) unsafe fn read(address: usize) -> usize {
    // Volatile: the frames of other functions are not objects of this program.
    // SAFETY: as above.
    unsafe { ptr::with_exposed_provenance::<usize>(address).read_volatile() }
}
