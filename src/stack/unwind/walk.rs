//! From one frame to the next, by rules, until nobody called.

use std::{arch::asm, mem::MaybeUninit, ptr};

use super::{
    super::capture::MAX_DEPTH,
    cache,
    last::Join,
    learn::learn,
    rule::{Rule, Stop},
};

/// What a frame is left with: where it runs, and the two registers that rules count from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    pub(super) ip: usize,
    pub(super) sp: usize,
    pub(super) bp: usize,
}

impl Registers {
    /// Those of the function that this is inlined into, which must not return before they are used.
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

/// One frame left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Where on the stack the return address stood.
    pub(super) slot: usize,
    /// The return address: where the caller goes on.
    pub(super) word: usize,
    /// `rbp` in the caller.
    pub(super) bp: usize,
    /// By which rule the frame was left.
    pub(super) rule: Rule,
}

/// How a walk ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// At the outermost frame; the caller's stack pointer there.
    Outermost(usize),
    /// At code that a signal interrupted.
    Signal,
    /// At code without unwind tables, or at an impossible frame.
    Lost,
    /// At a rule that only the portable walk can follow.
    Unfit,
    /// At [`MAX_DEPTH`].
    Full,
    /// At this frame of the last capture, counted from the outermost.
    Joined(usize),
}

pub(super) type Steps = [MaybeUninit<Step>; MAX_DEPTH];

/// Walks outward from `start`, to `top`, where this thread's stack ends.
///
/// `POINTERS_FIRST` says what to expect, not what to believe: each frame's rule
/// is looked up either way. Where it is that of a function with a frame
/// pointer, the processor goes on to the next frame on that guess while the
/// rule is still on its way from memory, so a build with frame pointers costs
/// one load a frame.
#[inline(always)]
pub(super) fn walk<const POINTERS_FIRST: bool>(
    start: Registers,
    top: usize,
    steps: &mut Steps,
    mut join: Join<'_>,
) -> (usize, End) {
    let Registers { mut ip, mut sp, mut bp } = start;
    let highest = top - 8;
    for (n, next) in steps.iter_mut().enumerate() {
        let rule = cache::lookup(ip).unwrap_or_else(|| rarer_rule(ip));
        let (slot, saved) = if POINTERS_FIRST && rule == Rule::FRAME_POINTER {
            (bp.wrapping_add(8), bp)
        } else {
            let base = if rule.counts_from_bp() { bp } else { sp };
            let cfa = base.wrapping_add(rule.cfa_bytes());
            (cfa.wrapping_sub(8), cfa.wrapping_sub(rule.saved_bp_bytes()))
        };
        // Within this thread's stack, and outside of what was walked. A rule
        // that says to stop fails here too: it puts the slot below `sp`.
        if !((sp <= saved) & (saved <= slot) & (slot <= highest) & (slot & 7 == 0)) {
            return (n, end_of(rule, sp));
        }
        // A branch that decides nothing: the place of the last walk's frame stands
        // in a register, so the processor reads the next word from there and looks
        // for its rule while this frame's rule is still on its way from memory.
        let (expected, guess) = twice(join.slot());
        let is_as_last = slot == expected;
        let slot = if is_as_last { kept_apart(guess) } else { slot };
        // SAFETY: `start.sp <= sp <= saved <= slot <= top - 8` by the check
        // above, and aligned: `slot` by the check, `saved` as it is a multiple
        // of 8 below. All of it is this thread's own stack, from its stack
        // pointer up.
        let (word, saved_bp) = unsafe { (read(slot), read(saved)) };
        bp = if rule.saves_bp() { saved_bp } else { bp };
        let step = next.write(Step { slot, word, bp, rule });
        let met;
        if is_as_last {
            met = join.arrives(step);
        } else {
            (join, met) = join.catches_up(step);
        }
        if let Some(frame) = met {
            return (n + 1, End::Joined(frame));
        }
        if word == 0 {
            return (n, End::Outermost(sp));
        }
        ip = word;
        sp = slot + 8;
    }
    (MAX_DEPTH, End::Full)
}

/// The rule of an address that is not the youngest of its place in the cache.
#[inline(never)]
fn rarer_rule(ip: usize) -> Rule {
    cache::lookup_old(ip).or_else(|| learn(ip)).unwrap_or(Rule::stop(Stop::Unknown))
}

#[cold]
fn end_of(rule: Rule, sp: usize) -> End {
    match rule.why_stop() {
        Some(Stop::Outermost) => End::Outermost(sp),
        Some(Stop::Signal) => End::Signal,
        Some(Stop::Unfit) => End::Unfit,
        Some(Stop::Unknown) | None => End::Lost,
    }
}

/// A number and the same number, of which the compiler does not know that they are the same.
#[inline(always)]
fn twice(number: usize) -> (usize, usize) {
    let mut copy = number;
    // SAFETY: no instruction at all. Not `pure`, or it would be moved behind the
    // comparison, where the compiler knows another name for the number.
    unsafe { asm!("/* {} */", inout(reg) copy, options(nomem, nostack, preserves_flags)) };
    (number, copy)
}

/// A number that is taken in a branch: not by a conditional move, which would wait for the condition.
#[inline(always)]
fn kept_apart(mut number: usize) -> usize {
    // SAFETY: no instruction at all. Not `pure`, or it would be moved out of the branch.
    unsafe { asm!("/* {} */", inout(reg) number, options(nomem, nostack, preserves_flags)) };
    number
}

/// A word of this thread's stack.
///
/// # Safety
///
/// `address` is aligned, at or above the stack pointer, and below the stack's end.
#[inline(always)]
pub(super) unsafe fn read(address: usize) -> usize {
    // Volatile: other functions' frames are no objects that this program knows of.
    // SAFETY: as above.
    unsafe { ptr::with_exposed_provenance::<usize>(address).read_volatile() }
}
