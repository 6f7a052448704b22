//! The last capture of a thread, and how much of it still stands.
//!
//! Most of a stack is the same from one capture to the next. A step outward
//! depends on the registers and on the words of the stack it reads, on nothing
//! else; so where a walk arrives in a frame of the last capture with the same
//! registers, and every word that was read beyond is unchanged, the rest is the
//! same. That is exact: the same return addresses alone would not be, since
//! they may be leftovers in a caller's uninitialised memory.

use std::ops::Range;

use super::{
    super::{capture::MAX_DEPTH, table::prefix_hash},
    walk::{Step, Steps, read},
};
use crate::event::StackId;

/// The two words of the stack that a step read, and where.
///
/// Where no outer frame depends on the `rbp` that was read, the second is the
/// first again.
#[derive(Clone, Copy)]
struct Check {
    slot: usize,
    word: usize,
    bp_slot: usize,
    bp: usize,
}

/// What else is known of a frame.
#[derive(Clone, Copy)]
struct Frame {
    /// `rbp` in this frame, and whether the way outward depends on it.
    bp: usize,
    needs_bp: bool,
    hash: u64,
}

/// The frames of the last capture, outermost first, so that what changes is at the end.
pub(super) struct Last {
    /// When it was made; rules may have been forgotten since.
    epoch: u32,
    /// How many frames can be joined: all, or none where the walk did not see the outermost.
    n_joinable: usize,
    n: usize,
    checks: [Check; MAX_DEPTH],
    frames: [Frame; MAX_DEPTH],
    words: [usize; MAX_DEPTH],
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
            checks: [Check { slot: 0, word: 0, bp_slot: 0, bp: 0 }; MAX_DEPTH],
            frames: [Frame { bp: 0, needs_bp: false, hash: 0 }; MAX_DEPTH],
            words: [0; MAX_DEPTH],
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
        (self.n, self.n_joinable, self.table) = (0, 0, 0);
    }

    /// Looks for the frames that stand as they did; `live` is the stack from the stack pointer up.
    #[inline(always)]
    pub(super) fn join(&self, epoch: u32, live: &Range<usize>) -> Join<'_> {
        let n = if self.epoch == epoch { self.n_joinable } else { 0 };
        let mut n_same = 0;
        for check in &self.checks[..n] {
            // The frames below the stack pointer are gone, though their words may still be there.
            if check.slot < live.start || check.bp_slot < live.start {
                break;
            }
            // SAFETY: a walk on this thread read both words, so they are
            // aligned and below the stack's end; they are not below its start.
            let is_same = unsafe { (read(check.slot) == check.word) & (read(check.bp_slot) == check.bp) };
            if !is_same {
                break;
            }
            n_same += 1;
        }
        // The first frame that changed may still be where the walks meet: it
        // is left with its own step, not with the old one.
        Join::new(self, (n_same + 1).min(n))
    }

    /// Takes the place of the frames inside of `n_kept`; `steps` are innermost first.
    #[inline(always)]
    pub(super) fn replace(
        &mut self,
        n_kept: usize,
        steps: &Steps,
        n_steps: usize,
        epoch: u32,
        joinable: bool,
    ) {
        let n = n_kept + n_steps;
        let mut is_same = n == self.n;
        let (mut hash, mut needs_bp) = match n_kept.checked_sub(1) {
            Some(outer) => (self.frames[outer].hash, self.frames[n_kept].needs_bp),
            None => (0, false),
        };
        for index in n_kept..n {
            // SAFETY: the walk wrote its first `n_steps` steps, and this counts them down to 0.
            let step = unsafe { steps[n - 1 - index].assume_init() };
            is_same &= self.words[index] == step.word;
            hash = prefix_hash(hash, index, step.word);
            self.words[index] = step.word;
            self.frames[index] = Frame { bp: step.bp, needs_bp, hash };
            self.checks[index] = check_of(&step, needs_bp);
            // In the frame that this step left, `rbp` matters if it is counted
            // from, or if it is handed on to where it matters. Said in
            // advance, for the frame may be replaced before it is next joined.
            needs_bp = step.rule.counts_from_bp() | (needs_bp & !step.rule.saves_bp());
            if index + 1 < MAX_DEPTH {
                self.frames[index + 1].needs_bp = needs_bp;
            }
        }
        (self.n, self.n_joinable, self.epoch) = (n, if joinable { n } else { 0 }, epoch);
        if !is_same {
            self.table = 0;
        }
    }
}

/// Where a walk may go over into the last capture.
pub(super) struct Join<'a> {
    last: &'a Last,
    /// The frames that may be met are those before this one.
    n: usize,
    /// The slot of the last of them.
    slot: usize,
}

impl Join<'_> {
    fn new(last: &Last, n: usize) -> Join<'_> {
        Join { last, n, slot: slot_of(last, n) }
    }

    /// No frame will be met.
    pub(super) fn never(last: &Last) -> Join<'_> {
        Join::new(last, 0)
    }

    /// The frame of the last capture in which a step arrived, if it is one.
    #[inline(always)]
    pub(super) fn meets(&mut self, step: &Step) -> Option<usize> {
        // Both walks go outward, so this passes each frame once.
        while step.slot > self.slot {
            self.n -= 1;
            self.slot = slot_of(self.last, self.n);
        }
        if step.slot != self.slot {
            return None;
        }
        let index = self.n - 1;
        let frame = &self.last.frames[index];
        let is_same = step.word == self.last.words[index] && (!frame.needs_bp || step.bp == frame.bp);
        is_same.then_some(index)
    }
}

/// The slot of the last of the first `n` frames; of none, one that no step reaches.
#[inline(always)]
fn slot_of(last: &Last, n: usize) -> usize {
    n.checked_sub(1).map_or(usize::MAX, |index| last.checks[index].slot)
}

fn check_of(step: &Step, needs_bp: bool) -> Check {
    let Step { slot, word, bp, rule } = *step;
    if needs_bp & rule.saves_bp() {
        Check { slot, word, bp_slot: slot + 8 - rule.saved_bp_bytes(), bp }
    } else {
        Check { slot, word, bp_slot: slot, bp: word }
    }
}
