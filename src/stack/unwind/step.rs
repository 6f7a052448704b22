//! A frame and the step to its caller: registers, the slot of the return address, its words.

use std::{mem::MaybeUninit, ptr};

use super::{super::intern::limits::MAX_DEPTH, rule::Rule};

/// The state in which a frame is left: the instruction, and the two registers that rules count from, the stack pointer
/// and the frame pointer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    pub(super) ip: usize,
    pub(super) sp: usize,
    pub(super) bp: usize,
}

/// The step from one frame to its caller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The address of the return address on the stack.
    pub(super) slot: usize,
    /// The return address: the instruction at which the caller continues.
    pub(super) word: usize,
    /// The frame pointer in the caller.
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
