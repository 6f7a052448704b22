//! Finds the frame at which a walk joins the last capture.
//!
//! Most of a stack is the same from one capture to the next. A step outward depends only on the registers and on the
//! words of the stack that it reads. So if a walk reaches a frame of the last capture with the same registers, and
//! every word that was read further out is unchanged, the rest is the same. This is exact. Comparing return addresses
//! alone would not be: they may be leftovers in a caller's uninitialised memory.

use std::ops::Range;

use super::{
    super::intern::limits::MAX_DEPTH,
    last::Last,
    processor::{Depth, return_address},
    step::{Step, read},
};

/// The position of a walk in the last capture: the frames at which it may join, and the slot
/// of the next.
#[derive(Clone, Copy)]
pub(super) struct Join<'a> {
    last: &'a Last,
    /// The walk may join at the outermost `n` frames.
    n: u8,
    /// How many frames the walk has not passed yet: both go outward, so it passes each once.
    n_ahead: u8,
    /// The slot of the innermost frame ahead.
    slot: usize,
}

impl<'a> Join<'a> {
    /// Creates the join of a walk at the unchanged frames of `last`; `live` is the stack from the stack pointer up.
    #[inline(always)]
    pub(super) fn new(last: &'a Last, epoch: u32, live: &Range<usize>) -> Join<'a> {
        let mut n = if last.epoch == epoch { last.n_joinable } else { 0 };
        // The frames below the stack pointer are gone, although their words may still be there. Slots fall from the
        // outermost frame on.
        while last.slots[n] < live.start && n > 0 {
            n -= 1;
        }
        // SAFETY: a walk on this thread read the slots that are compared here, so they are
        // aligned and below the stack's end; this one is not below its start.
        let unchanged = |slot: usize, word: usize| slot >= live.start && unsafe { read(slot) } == word;
        // SAFETY: as above; all of these are above the last, which is not below the start.
        let mut n_same = unsafe { n_unchanged(&last.slots[1..=n], &last.words[..n]) };
        for saved in &last.saved[..last.n_saved] {
            if saved.frame >= n_same {
                break;
            }
            if !unchanged(saved.slot, saved.bp) {
                n_same = saved.frame;
                break;
            }
        }
        // The walks may still meet in the first frame that changed: its own step leaves it, not the old one.
        Join::before(last, (n_same + 1).min(n))
    }

    /// Returns a join that never happens.
    pub(super) fn never(last: &'a Last) -> Join<'a> {
        Join::before(last, 0)
    }

    /// Returns a join at one of the outermost `n` frames.
    #[inline(always)]
    fn before(last: &'a Last, n: usize) -> Join<'a> {
        const { assert!(MAX_DEPTH <= u8::MAX as usize) };
        let n_ahead = last.n as u8;
        Join { last, n: n as u8, n_ahead, slot: last.slots[usize::from(n_ahead)] }
    }

    /// Returns the slot of the next return address, if the frames are unchanged.
    #[inline(always)]
    pub(super) fn slot(&self) -> usize {
        self.slot
    }

    /// Returns the frame of the last capture that a step has reached after reading [`Join::slot`], if the walk may join
    /// there.
    #[inline(always)]
    pub(super) fn arrives(&mut self, step: &Step) -> Option<usize> {
        if self.n_ahead <= self.n && self.is_same(step) {
            return Some(usize::from(self.n_ahead) - 1);
        }
        self.pass();
        None
    }

    /// Like [`Join::arrives`], for a step that read another slot; also returns the join.
    ///
    /// By value, because its state would otherwise be kept in memory for the sake of this call.
    #[inline(never)]
    pub(super) fn catches_up(mut self, step: &Step) -> (Self, Option<usize>) {
        while self.n_ahead > 0 && step.slot > self.slot {
            self.pass();
        }
        let met = if step.slot == self.slot { self.arrives(step) } else { None };
        (self, met)
    }

    #[inline(always)]
    fn pass(&mut self) {
        self.n_ahead = self.n_ahead.wrapping_sub(1);
        self.slot = self.last.slots[usize::from(self.n_ahead)];
    }

    #[inline(always)]
    fn is_same(&self, step: &Step) -> bool {
        let index = usize::from(self.n_ahead) - 1;
        let needs_bp = index.checked_sub(1).is_some_and(|outer| self.last.frames[outer].next_needs_bp);
        let is_same =
            step.word == self.last.words[index] && (!needs_bp || step.bp == self.last.frames[index].bp);
        if Depth::IS_FIXED { is_same } else { is_same && step.rule.depth() == self.last.frames[index].depth }
    }
}

/// Returns the number of words, from the first on, that are still at their slots.
///
/// # Safety
///
/// All slots are aligned and within this thread's stack.
#[inline(always)]
unsafe fn n_unchanged(slots: &[usize], words: &[usize]) -> usize {
    // SAFETY: as above.
    let difference = |slot: usize, word: usize| return_address(unsafe { read(slot) }) ^ word;
    let mut n = 0;
    // Four at a time, because usually all of them are unchanged.
    let fours = slots.chunks_exact(4).zip(words.chunks_exact(4));
    for (slots, words) in fours {
        let differences = (0..4).map(|i| difference(slots[i], words[i]));
        if differences.fold(0, |all, one| all | one) != 0 {
            break;
        }
        n += 4;
    }
    let rest = slots.iter().zip(words).skip(n);
    n + rest.take_while(|(slot, word)| difference(**slot, **word) == 0).count()
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use super::{
        super::{
            last::tests::{EPOCH, Stack, four, step},
            processor::sample,
            rule::Base,
        },
        *,
    };

    fn live(stack: &Stack) -> Range<usize> {
        stack.address(0)..stack.address(64)
    }

    /// Returns the frame at which a walk that takes these steps joins, counted from the outermost.
    fn joined(last: &Last, stack: &Stack, epoch: u32, steps: &[MaybeUninit<Step>]) -> Option<usize> {
        let mut join = Join::new(last, epoch, &live(stack));
        // SAFETY: all are made by `step`.
        steps.iter().find_map(|step| {
            // SAFETY: all are made by `step`.
            let step = unsafe { step.assume_init_ref() };
            if step.slot == join.slot() {
                return join.arrives(step);
            }
            let met;
            (join, met) = join.catches_up(step);
            met
        })
    }

    #[test]
    fn an_unchanged_stack_is_joined_at_once_and_a_changed_one_outside_of_the_change() {
        let mut stack = Stack::new();
        let (last, mut steps) = four(&mut stack);
        assert_eq!(last.words(), [0x400, 0x300, 0x200, 0x100]);
        assert_eq!(joined(&last, &stack, EPOCH, &steps), Some(3));
        steps[1] = step(&mut stack, 20, 0x222, 0xb0, sample(Base::Sp, 32, None));
        assert_eq!(joined(&last, &stack, EPOCH, &steps), Some(1));
        // Its inner frame is unchanged, but is called from elsewhere.
        steps[3] = step(&mut stack, 40, 0x444, 0xb0, sample(Base::Sp, 32, None));
        assert_eq!(joined(&last, &stack, EPOCH, &steps), None);
    }

    #[test]
    fn what_was_learnt_in_another_epoch_is_not_joined() {
        let mut stack = Stack::new();
        let (mut last, steps) = four(&mut stack);
        assert_eq!(joined(&last, &stack, EPOCH + 1, &steps), None);
        last.replace(0, &steps, EPOCH, false);
        assert_eq!(joined(&last, &stack, EPOCH, &steps), None, "nor a walk that was cut");
    }

    #[test]
    fn a_saved_rbp_that_matters_is_compared() {
        let mut stack = Stack::new();
        let (last, steps) = four(&mut stack);
        let mut last = last;
        // Called by the frame that saved `rbp`, so its own `rbp` does not matter.
        let inner = step(&mut stack, 5, 0x50, 0xe0, sample(Base::Sp, 32, None));
        last.replace(4, &[inner], EPOCH, true);
        assert_eq!(joined(&last, &stack, EPOCH, &[inner]), Some(4));
        // Where `rbp` was saved, two words below the CFA.
        stack.0[9] = 0xbb;
        assert_eq!(joined(&last, &stack, EPOCH, &[inner]), None);
        // SAFETY: made by `step`.
        let changed = Step { bp: 0xbb, ..unsafe { steps[0].assume_init() } };
        assert_eq!(
            joined(&last, &stack, EPOCH, &[MaybeUninit::new(changed)]),
            None,
            "handed on to where it counts"
        );
    }

    #[test]
    fn an_rbp_that_nobody_counts_from_is_not_compared() {
        let mut stack = Stack::new();
        let (last, steps) = four(&mut stack);
        // SAFETY: made by `step`.
        let outer = unsafe { steps[3].assume_init() };
        let join = Join::new(&last, EPOCH, &live(&stack));
        assert_eq!(join.catches_up(&Step { bp: 0xbb, ..outer }).1, Some(0));
    }
}
