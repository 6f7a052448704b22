//! Walks from frame to frame, by rules, to the outermost frame.

use std::arch::asm;

use super::{
    super::intern::limits::MAX_DEPTH,
    cache,
    join::Join,
    learn::learn,
    processor::{Places, kept_apart, return_address},
    rule::{Rule, Stop},
    step::{Registers, Step, Steps, read},
};

/// How a walk ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// At the outermost frame, with the stack pointer there.
    Outermost(usize),
    /// At code interrupted by a signal.
    Signal,
    /// At code without unwind tables, or at an impossible frame.
    Lost,
    /// At a rule that only the portable walk can follow.
    Unfit,
    /// At [`MAX_DEPTH`].
    Full,
    /// At a frame of the last capture, counted from the outermost.
    Joined(usize),
}

/// Walks outward from `start`, at most to `top`, the end of this thread's stack.
///
/// Returns the number of steps and how the walk ended.
///
/// `POINTERS_FIRST` is only a guess: each frame's rule is looked up either way. If the rule belongs to a function with
/// a frame pointer, the processor continues to the next frame on that guess while the rule is still on its way from
/// memory, so a build with frame pointers costs one load per frame.
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
        let places = rule.places::<POINTERS_FIRST>(sp, bp);
        // The places must be within this thread's stack, and outside the frames already walked. A rule that ends the
        // walk fails here too, because it puts the slot below `sp`.
        if !rule.is_within(places, sp, highest) {
            return (n, end_of(rule, sp));
        }
        let Places { slot, saved } = places;
        // A branch without an effect: the slot of the last walk's frame is already in a register, so the processor
        // reads the next word from there and looks for its rule while this frame's rule is still on its way from
        // memory.
        let (expected, guess) = twice(join.slot());
        let is_as_last = slot == expected;
        let slot = if is_as_last { kept_apart(guess) } else { slot };
        // SAFETY: both are at or above `sp`, which is at or above `start.sp`, and at most at `highest`
        // by the check above, and aligned: `slot` by the check, `saved` as it is a multiple
        // of 8 from it. All of it is this thread's own stack, from its stack
        // pointer up.
        let (word, saved_bp) = unsafe { (return_address(read(slot)), read(saved)) };
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
        sp = rule.caller_sp(slot);
    }
    (MAX_DEPTH, End::Full)
}

/// Returns the rule of an address that is not the newest entry at its position in the cache.
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

/// Returns `number` twice while hiding from the optimiser that the two are equal.
#[inline(always)]
fn twice(number: usize) -> (usize, usize) {
    let mut copy = number;
    // SAFETY: no instruction at all. Not `pure`, or it would be moved behind the
    // comparison, where the compiler may use the other number instead.
    unsafe { asm!("/* {} */", inout(reg) copy, options(nomem, nostack, preserves_flags)) };
    (number, copy)
}
