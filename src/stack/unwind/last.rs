//! Remembers the frames of a thread's last capture.

use std::mem::MaybeUninit;

use super::{
    super::intern::{key::prefix_hash, limits::MAX_DEPTH},
    processor::Depth,
    step::Step,
};
use memreel_snapshot::words::StackId;

/// What is remembered of a frame in addition to the return address into it.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// The frame pointer in this frame.
    pub(super) bp: usize,
    /// The distance of the return address below the stack pointer in this frame.
    pub(super) depth: Depth,
    /// The hash of the return addresses from the outermost to this one.
    hash: u64,
    /// Whether the steps outward depend on the frame pointer in the next frame inward.
    pub(super) next_needs_bp: bool,
}

/// A saved frame pointer that some frame further out depends on.
#[derive(Clone, Copy)]
pub(super) struct SavedBp {
    pub(super) frame: usize,
    pub(super) slot: usize,
    pub(super) bp: usize,
}

/// The frames of the last capture, outermost first, so that changes are at the end.
pub(super) struct Last {
    /// The epoch of the rule cache at the capture; rules may have been forgotten since.
    pub(super) epoch: u32,
    /// How many frames can be joined: all, or none if the walk did not reach the outermost.
    pub(super) n_joinable: usize,
    pub(super) n: usize,
    pub(super) words: [usize; MAX_DEPTH],
    /// The address on the stack of each word, one place later than in `words`: no word is
    /// before the first, so `slots[0]` is 0, which is no address. Any `u8` is an index.
    pub(super) slots: [usize; 1 << u8::BITS],
    pub(super) frames: [Frame; MAX_DEPTH],
    pub(super) n_saved: usize,
    pub(super) saved: [SavedBp; MAX_DEPTH],
    /// The interner that numbered these words, and the number; 0 for no interner.
    interner: u64,
    stack: StackId,
}

impl Last {
    /// Creates an empty capture: all zeros, so that a thread that captures nothing costs no memory.
    pub(super) const fn new() -> Last {
        Last {
            epoch: 0,
            n_joinable: 0,
            n: 0,
            words: [0; MAX_DEPTH],
            slots: [0; 1 << u8::BITS],
            frames: [Frame { bp: 0, depth: Depth::NONE, hash: 0, next_needs_bp: false }; MAX_DEPTH],
            n_saved: 0,
            saved: [SavedBp { frame: 0, slot: 0, bp: 0 }; MAX_DEPTH],
            interner: 0,
            stack: StackId(0),
        }
    }

    /// Returns the return addresses, outermost first.
    pub(super) fn words(&self) -> &[usize] {
        &self.words[..self.n]
    }

    /// Returns the hash of [`Last::words`].
    pub(super) fn hash(&self) -> u64 {
        self.n.checked_sub(1).map_or(0, |last| self.frames[last].hash)
    }

    /// Returns the number of these words in this interner, if they have one yet.
    #[inline(always)]
    pub(super) fn stack_in(&self, interner: u64) -> Option<StackId> {
        (self.interner == interner).then_some(self.stack)
    }

    pub(super) fn set_stack(&mut self, interner: u64, stack: StackId) {
        (self.interner, self.stack) = (interner, stack);
    }

    /// Forgets the capture.
    pub(super) fn clear(&mut self) {
        (self.n, self.n_joinable, self.n_saved, self.interner) = (0, 0, 0, 0);
    }

    /// Replaces all frames except the outermost `n_kept` by `steps`, which are innermost first.
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
        // Plain indexes: the equivalent iterators keep their state in memory.
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
                    SavedBp { frame: n_kept + i, slot: rule.saved_slot(slot), bp };
                self.n_saved += 1;
            }
            // In the frame that this step left, the frame pointer matters if the CFA is counted from it, or if it is
            // handed on to where it matters.
            needs_bp = rule.counts_from_bp() | (needs_bp & !rule.saves_bp());
            frames[i] = Frame { bp, depth: rule.depth(), hash, next_needs_bp: needs_bp };
        }
        (self.n, self.n_joinable, self.epoch) = (n, if joinable { n } else { 0 }, epoch);
        if !is_same {
            self.interner = 0;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{
        super::{
            processor::sample,
            rule::{Base, Rule},
        },
        *,
    };

    pub(in super::super) const EPOCH: u32 = 7;

    /// The words of a stack, innermost first.
    pub(in super::super) struct Stack(pub(in super::super) Box<[usize; 64]>);

    impl Stack {
        pub(in super::super) fn new() -> Stack {
            Stack(Box::new([0; 64]))
        }

        pub(in super::super) fn address(&self, index: usize) -> usize {
            self.0.as_ptr().expose_provenance() + 8 * index
        }
    }

    pub(in super::super) fn step(
        stack: &mut Stack,
        slot: usize,
        word: usize,
        bp: usize,
        rule: Rule,
    ) -> MaybeUninit<Step> {
        stack.0[slot] = word;
        if rule.saves_bp() {
            let saved = rule.saved_slot(stack.address(slot));
            stack.0[(saved - stack.address(0)) / 8] = bp;
        }
        MaybeUninit::new(Step { slot: stack.address(slot), word, bp, rule })
    }

    /// Creates four frames: the second from outside counts from `rbp`, which the third only hands on and the fourth has
    /// saved.
    pub(in super::super) fn four(stack: &mut Stack) -> (Last, [MaybeUninit<Step>; 4]) {
        let plain = sample(Base::Sp, 32, None);
        let saves = sample(Base::Sp, 32, Some(16));
        let counts = sample(Base::Bp, 32, None);
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

    #[test]
    fn the_inner_frames_are_replaced_and_the_outer_stay() {
        let mut stack = Stack::new();
        let (mut last, _) = four(&mut stack);
        let whole = last.hash();
        last.set_stack(1, StackId(5));
        let inner = [step(&mut stack, 20, 0x222, 0xb0, sample(Base::Sp, 32, None))];
        last.replace(2, &inner, EPOCH, true);
        assert_eq!((last.words(), last.stack_in(1)), (&[0x400, 0x300, 0x222][..], None));
        assert_ne!(last.hash(), whole);
        let back = [
            step(&mut stack, 10, 0x100, 0xb0, sample(Base::Sp, 32, Some(16))),
            step(&mut stack, 20, 0x200, 0xb0, sample(Base::Sp, 32, None)),
        ];
        last.replace(2, &back, EPOCH, true);
        assert_eq!(last.hash(), whole);
        last.set_stack(1, StackId(5));
        last.replace(2, &back, EPOCH, true);
        assert_eq!((last.stack_in(1), last.stack_in(2)), (Some(StackId(5)), None));
    }
}
