//! The last capture of a thread, and how much of it still stands.
//!
//! Most of a stack is the same from one capture to the next. A step outward
//! depends on the registers and on the words of the stack it reads, on nothing
//! else; so where a walk arrives in a frame of the last capture with the same
//! registers, and every word that was read beyond is unchanged, the rest is the
//! same. That is exact: the same return addresses alone would not be, since
//! they may be leftovers in a caller's uninitialised memory.

use std::{mem::MaybeUninit, ops::Range};

use super::{
    super::{capture::MAX_DEPTH, interner::prefix_hash},
    walk::{Step, read},
};
use crate::event::StackId;

/// What is known of a frame besides the return address into it.
#[derive(Clone, Copy)]
struct Frame {
    /// `rbp` in this frame.
    bp: usize,
    /// Of the return addresses from the outermost to this one.
    hash: u64,
    /// Whether the way outward depends on `rbp` in the next frame inward.
    next_needs_bp: bool,
}

/// A saved `rbp` that some frame further out depends on.
#[derive(Clone, Copy)]
struct SavedBp {
    frame: usize,
    slot: usize,
    bp: usize,
}

/// The frames of the last capture, outermost first, so that what changes is at the end.
pub(super) struct Last {
    /// When it was made; rules may have been forgotten since.
    epoch: u32,
    /// How many frames can be joined: all, or none where the walk did not see the outermost.
    n_joinable: usize,
    n: usize,
    words: [usize; MAX_DEPTH],
    /// Where on the stack the word of the frame before stands: nothing before
    /// the first, so 0, which is nowhere. As long as a byte counts.
    slots: [usize; 1 << u8::BITS],
    frames: [Frame; MAX_DEPTH],
    n_saved: usize,
    saved: [SavedBp; MAX_DEPTH],
    /// The table that gave it a number, and the number; 0 for no table.
    table: u64,
    stack: StackId,
}

impl Last {
    /// All zeros, so that a thread which captures nothing costs no memory.
    pub(super) const fn new() -> Last {
        Last {
            epoch: 0,
            n_joinable: 0,
            n: 0,
            words: [0; MAX_DEPTH],
            slots: [0; 1 << u8::BITS],
            frames: [Frame { bp: 0, hash: 0, next_needs_bp: false }; MAX_DEPTH],
            n_saved: 0,
            saved: [SavedBp { frame: 0, slot: 0, bp: 0 }; MAX_DEPTH],
            table: 0,
            stack: StackId(0),
        }
    }

    /// The return addresses, outermost first.
    pub(super) fn words(&self) -> &[usize] {
        &self.words[..self.n]
    }

    /// The hash of [`Last::words`].
    pub(super) fn hash(&self) -> u64 {
        self.n.checked_sub(1).map_or(0, |last| self.frames[last].hash)
    }

    /// The number that this table gave to these words, if they have one yet.
    #[inline(always)]
    pub(super) fn stack_in(&self, table: u64) -> Option<StackId> {
        (self.table == table).then_some(self.stack)
    }

    pub(super) fn set_stack(&mut self, table: u64, stack: StackId) {
        (self.table, self.stack) = (table, stack);
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        (self.n, self.n_joinable, self.n_saved, self.table) = (0, 0, 0, 0);
    }

    /// Looks for the frames that stand as they did; `live` is the stack from the stack pointer up.
    #[inline(always)]
    pub(super) fn join(&self, epoch: u32, live: &Range<usize>) -> Join<'_> {
        let mut n = if self.epoch == epoch { self.n_joinable } else { 0 };
        // The frames below the stack pointer are gone, though their words may
        // still be there. Slots fall from the outermost frame on.
        while self.slots[n] < live.start && n > 0 {
            n -= 1;
        }
        // SAFETY: a walk on this thread read what is compared here, so it is
        // aligned and below the stack's end; it is not below its start.
        let stands = |slot: usize, word: usize| slot >= live.start && unsafe { read(slot) } == word;
        // SAFETY: as above; all of these lie above the last, which is not below the start.
        let mut n_same = unsafe { n_standing(&self.slots[1..=n], &self.words[..n]) };
        for saved in &self.saved[..self.n_saved] {
            if saved.frame >= n_same {
                break;
            }
            if !stands(saved.slot, saved.bp) {
                n_same = saved.frame;
                break;
            }
        }
        // The first frame that changed may still be where the walks meet: it
        // is left with its own step, not with the old one.
        Join::new(self, (n_same + 1).min(n))
    }

    /// Takes the place of the frames inside of `n_kept`; `steps` are innermost first.
    ///
    /// Not inlined: it needs every register for itself.
    #[inline(never)]
    pub(super) fn replace(&mut self, n_kept: usize, steps: &[MaybeUninit<Step>], epoch: u32, joinable: bool) {
        let n = n_kept + steps.len();
        let mut is_same = n == self.n;
        let (mut hash, mut needs_bp) = match n_kept.checked_sub(1) {
            Some(outer) => (self.frames[outer].hash, self.frames[outer].next_needs_bp),
            None => (0, false),
        };
        while self.n_saved > 0 && self.saved[self.n_saved - 1].frame >= n_kept {
            self.n_saved -= 1;
        }
        let (frames, words) = (&mut self.frames[n_kept..n], &mut self.words[n_kept..n]);
        let slots = &mut self.slots[n_kept + 1..=n];
        // Plain indices: the iterators that say the same keep their state in memory.
        let n_new = steps.len().min(frames.len()).min(words.len()).min(slots.len());
        for i in 0..n_new {
            // SAFETY: the walk wrote each of these.
            let Step { slot, word, bp, rule } = unsafe { steps[n_new - 1 - i].assume_init() };
            is_same &= words[i] == word;
            words[i] = word;
            slots[i] = slot;
            hash = prefix_hash(hash, n_kept + i, word);
            if needs_bp & rule.saves_bp() {
                self.saved[self.n_saved % MAX_DEPTH] =
                    SavedBp { frame: n_kept + i, slot: slot + 8 - rule.saved_bp_bytes(), bp };
                self.n_saved += 1;
            }
            // In the frame that this step left, `rbp` matters if it is counted
            // from, or if it is handed on to where it matters.
            needs_bp = rule.counts_from_bp() | (needs_bp & !rule.saves_bp());
            frames[i] = Frame { bp, hash, next_needs_bp: needs_bp };
        }
        (self.n, self.n_joinable, self.epoch) = (n, if joinable { n } else { 0 }, epoch);
        if !is_same {
            self.table = 0;
        }
    }
}

/// How many words, from the first on, stand where they stood.
///
/// # Safety
///
/// All slots are aligned and within this thread's stack.
#[inline(always)]
unsafe fn n_standing(slots: &[usize], words: &[usize]) -> usize {
    // SAFETY: as above.
    let difference = |slot: usize, word: usize| unsafe { read(slot) } ^ word;
    let mut n = 0;
    // Four at a time, because mostly all of them stand.
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

/// A walk's place in the last capture: where it may go over into it, and where
/// its next frame is likely to be.
#[derive(Clone, Copy)]
pub(super) struct Join<'a> {
    last: &'a Last,
    /// The frames that may be met are those before this one.
    n: u8,
    /// How many frames the walk did not pass yet: both go outward, so it passes each once.
    n_ahead: u8,
    /// The slot of the innermost of them.
    slot: usize,
}

impl<'a> Join<'a> {
    #[inline(always)]
    fn new(last: &'a Last, n: usize) -> Join<'a> {
        const { assert!(MAX_DEPTH <= u8::MAX as usize) };
        let n_ahead = last.n as u8;
        Join { last, n: n as u8, n_ahead, slot: last.slots[usize::from(n_ahead)] }
    }

    /// No frame will be met.
    pub(super) fn never(last: &'a Last) -> Join<'a> {
        Join::new(last, 0)
    }

    /// Where the next return address stands, if the frames are where they were.
    #[inline(always)]
    pub(super) fn slot(&self) -> usize {
        self.slot
    }

    /// The frame of the last capture in which a step arrived that read
    /// [`Join::slot`], if it is one.
    #[inline(always)]
    pub(super) fn arrives(&mut self, step: &Step) -> Option<usize> {
        if self.n_ahead <= self.n && self.is_same(step) {
            return Some(usize::from(self.n_ahead) - 1);
        }
        self.pass();
        None
    }

    /// As [`Join::arrives`], of a step that read another slot. By value, or its
    /// state would be kept in memory for the sake of this call.
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
        step.word == self.last.words[index] && (!needs_bp || step.bp == self.last.frames[index].bp)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::rule::{Base, Rule},
        *,
    };

    const EPOCH: u32 = 7;

    /// Some words that stand for a stack, innermost first.
    struct Stack(Box<[usize; 64]>);

    impl Stack {
        fn new() -> Stack {
            Stack(Box::new([0; 64]))
        }

        fn address(&self, index: usize) -> usize {
            self.0.as_ptr().expose_provenance() + 8 * index
        }

        fn live(&self) -> Range<usize> {
            self.address(0)..self.address(64)
        }
    }

    fn step(stack: &mut Stack, slot: usize, word: usize, bp: usize, rule: Rule) -> MaybeUninit<Step> {
        stack.0[slot] = word;
        if rule.saves_bp() {
            stack.0[slot + 1 - rule.saved_bp_bytes() / 8] = bp;
        }
        MaybeUninit::new(Step { slot: stack.address(slot), word, bp, rule })
    }

    /// Four frames, of which the second from outside counts from `rbp`, which
    /// the third only hands on and the fourth has saved.
    fn four(stack: &mut Stack) -> (Last, [MaybeUninit<Step>; 4]) {
        let plain = Rule::frame(Base::Sp, 32, None);
        let saves = Rule::frame(Base::Sp, 32, Some(16));
        let counts = Rule::frame(Base::Bp, 32, None);
        let steps = [
            step(stack, 10, 0x100, 0xb0, saves),
            step(stack, 20, 0x200, 0xb0, plain),
            step(stack, 30, 0x300, 0xb0, counts),
            step(stack, 40, 0x400, 0xb0, plain),
        ];
        let mut last = Last::new();
        last.replace(0, &steps, EPOCH, true);
        (last, steps)
    }

    /// The frame at which a walk that takes these steps joins, counted from the outermost.
    fn joined(last: &Last, stack: &Stack, epoch: u32, steps: &[MaybeUninit<Step>]) -> Option<usize> {
        let mut join = last.join(epoch, &stack.live());
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
        steps[1] = step(&mut stack, 20, 0x222, 0xb0, Rule::frame(Base::Sp, 32, None));
        assert_eq!(joined(&last, &stack, EPOCH, &steps), Some(1));
        // Its inner frame stands as it did, but is called from elsewhere.
        steps[3] = step(&mut stack, 40, 0x444, 0xb0, Rule::frame(Base::Sp, 32, None));
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
        // Called by the frame that saved `rbp`, so its own does not matter.
        let inner = step(&mut stack, 5, 0x50, 0xe0, Rule::frame(Base::Sp, 32, None));
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
        let join = last.join(EPOCH, &stack.live());
        assert_eq!(join.catches_up(&Step { bp: 0xbb, ..outer }).1, Some(0));
    }

    #[test]
    fn the_inner_frames_are_replaced_and_the_outer_stay() {
        let mut stack = Stack::new();
        let (mut last, _) = four(&mut stack);
        let whole = last.hash();
        last.set_stack(1, StackId(5));
        let inner = [step(&mut stack, 20, 0x222, 0xb0, Rule::frame(Base::Sp, 32, None))];
        last.replace(2, &inner, EPOCH, true);
        assert_eq!((last.words(), last.stack_in(1)), (&[0x400, 0x300, 0x222][..], None));
        assert_ne!(last.hash(), whole);
        let back = [
            step(&mut stack, 10, 0x100, 0xb0, Rule::frame(Base::Sp, 32, Some(16))),
            step(&mut stack, 20, 0x200, 0xb0, Rule::frame(Base::Sp, 32, None)),
        ];
        last.replace(2, &back, EPOCH, true);
        assert_eq!(last.hash(), whole);
        last.set_stack(1, StackId(5));
        last.replace(2, &back, EPOCH, true);
        assert_eq!((last.stack_in(1), last.stack_in(2)), (Some(StackId(5)), None));
    }
}
