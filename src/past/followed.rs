//! One device of a tape that is followed: what is live, and what was read and is not applied yet.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use crate::{
    recorder::{Entry, LiveState, represented, tiled},
    tape::Base,
};
use memreel_lockfree::events::Words;
use memreel_snapshot::words::{
    Action, Address, BlockState, InventoryBlock, InventorySegment, PoolId, PoolKind, StackId, StreamId,
    sample_weight,
};

/// How many looks ago what was read then is certainly whole: a look sees an event late at most once, and a list of live
/// blocks can be written while a look is under way.
const WHOLE_AFTER: usize = 3;

/// A device that is followed.
#[derive(Debug, Default)]
pub(crate) struct FollowedState {
    live: LiveState,
    /// The order word up to which the list has the events that the state began with.
    base: u64,
    /// The order word up to which events are applied.
    applied: u64,
    /// The newest order word that was read.
    newest: u64,
    /// The newest order words of the last looks, the last one first.
    newest_of_looks: [u64; WHOLE_AFTER],
    /// Events that were read and are not whole yet.
    pending: Vec<Words>,
    sample_bytes: u64,
    /// The order word up to which events are counted, and the one up to which failed requests are.
    counted: u64,
    counted_ooms: u64,
    pub(crate) counts: FollowedCounts,
}

/// What happened since the tape was attached, and what is live.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FollowedCounts {
    /// The bytes of the live blocks, as far as they were requested.
    pub(crate) live_bytes: u64,
    pub(crate) n_live: u64,
    /// The most live bytes that were seen.
    pub(crate) peak_bytes: u64,
    pub(crate) n_allocs: u64,
    pub(crate) n_frees: u64,
    pub(crate) allocated_bytes: u64,
    pub(crate) n_ooms: u64,
    /// The time of the last failed request, in microseconds since the Unix epoch, and its bytes.
    pub(crate) last_oom: Option<(u64, u64)>,
}

impl FollowedState {
    pub(super) fn of(base: &Base) -> FollowedState {
        let live = LiveState::of(&base.segments);
        let mut followed =
            FollowedState { live, base: base.until, applied: base.until, ..FollowedState::default() };
        followed.newest_of_looks = [base.until; WHOLE_AFTER];
        followed.newest = base.until;
        followed.count_live();
        followed
    }

    /// Takes over what was counted before the state was taken anew.
    pub(super) fn go_on_from(&mut self, before: &FollowedState) {
        let FollowedCounts { live_bytes, n_live, .. } = self.counts;
        self.counts = FollowedCounts { live_bytes, n_live, ..before.counts };
        (self.counted, self.counted_ooms) = (before.counted, before.counted);
        self.sample_by(before.sample_bytes);
    }

    fn count_live(&mut self) {
        let (mut bytes, mut n) = (0_u64, 0);
        self.live.for_each_block(|_, block_bytes| {
            bytes = bytes.saturating_add(represented(block_bytes, self.sample_bytes));
            n += 1;
        });
        (self.counts.live_bytes, self.counts.n_live) = (bytes, n);
        self.counts.peak_bytes = self.counts.peak_bytes.max(bytes);
    }

    /// Sets the mean bytes between two recorded ones.
    pub(super) fn sample_by(&mut self, sample_bytes: u64) {
        if self.sample_bytes != sample_bytes {
            self.sample_bytes = sample_bytes;
            self.count_live();
        }
    }

    pub(super) fn base(&self) -> u64 {
        self.base
    }

    pub(super) fn applied(&self) -> u64 {
        self.applied
    }

    /// Returns whether a list of live blocks goes further than what was certainly read.
    pub(super) fn is_behind(&self, until: u64) -> bool {
        until > self.newest_of_looks[WHOLE_AFTER - 1] && until > self.base
    }

    /// Takes events that were read.
    pub(super) fn take(&mut self, events: &[Words]) {
        for words in events.iter().filter(|words| words[1] > self.base) {
            self.newest = self.newest.max(words[1]);
            self.pending.push(*words);
        }
    }

    /// Ends the reading that the state begins with: nothing had left the file before its end.
    pub(super) fn begin(&mut self) {
        self.newest_of_looks = [self.newest; WHOLE_AFTER];
    }

    /// Counts the events from here on, and of those before the failed requests alone.
    pub(super) fn count_from_here(&mut self) {
        self.counted = self.newest;
    }

    /// Returns how many of the due events, which are in order, were counted before.
    pub(super) fn n_counted(&self, due: &[Words]) -> usize {
        due.partition_point(|words| words[1] <= self.counted)
    }

    fn end_look(&mut self) {
        self.newest_of_looks.rotate_right(1);
        self.newest_of_looks[0] = self.newest;
    }

    /// Takes the events out that are whole, in their order, with the order word up to which they are.
    pub(super) fn due(&mut self, is_at_end: bool) -> (u64, Vec<Words>) {
        let until = if is_at_end { self.newest } else { self.newest_of_looks[0] };
        self.pending.sort_by_key(|words| words[1]);
        let rest = self.pending.split_off(self.pending.partition_point(|words| words[1] <= until));
        let due = std::mem::replace(&mut self.pending, rest);
        (until, due)
    }

    pub(super) fn end_apply(&mut self, until: u64) {
        self.applied = self.applied.max(until);
        self.counted = self.counted.max(until);
        self.end_look();
    }

    /// Applies an event, and counts it if `is_new`.
    pub(super) fn apply(&mut self, entry: &Entry, is_new: bool) {
        let event = &entry.event;
        let bytes_at = |live: &LiveState| live.bytes_at(event.address.0);
        let counts = &mut self.counts;
        let forget = |counts: &mut FollowedCounts, bytes: u64| {
            counts.live_bytes = counts.live_bytes.saturating_sub(represented(bytes, self.sample_bytes));
            counts.n_live = counts.n_live.saturating_sub(1);
        };
        match event.action {
            Action::Alloc => {
                bytes_at(&self.live).into_iter().for_each(|bytes| forget(counts, bytes));
                let bytes = represented(event.size_bytes, self.sample_bytes);
                counts.live_bytes = counts.live_bytes.saturating_add(bytes);
                if is_new {
                    counts.allocated_bytes = counts.allocated_bytes.saturating_add(bytes);
                }
                counts.peak_bytes = counts.peak_bytes.max(counts.live_bytes);
                counts.n_live += 1;
                counts.n_allocs += u64::from(is_new);
            }
            Action::FreeCompleted => {
                bytes_at(&self.live).into_iter().for_each(|bytes| forget(counts, bytes));
                counts.n_frees += u64::from(is_new);
            }
            Action::Oom if is_new || self.counted_ooms == 0 => {
                counts.n_ooms += 1;
                counts.last_oom = Some((entry.time_us, event.size_bytes));
            }
            _ => {}
        }
        self.live.apply(event, entry.time_us);
    }

    /// Returns what is held, by stack.
    pub(crate) fn held(&self) -> HeldSums {
        let mut held = HeldSums { has_segments: self.live.has_segments(), ..HeldSums::default() };
        self.live.for_each_block(|stack, bytes| {
            let (of_stack, n) = held.blocks.entry(stack).or_default();
            *of_stack = of_stack.saturating_add(represented(bytes, self.sample_bytes));
            *n = n.saturating_add(n_represented(bytes, self.sample_bytes));
        });
        self.live.for_each_segment(|stack, bytes| {
            let of_stack = held.segments.entry(stack).or_default();
            *of_stack = of_stack.saturating_add(bytes);
        });
        held
    }

    /// Returns the bytes of the segments.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        let mut all = 0_u64;
        self.live.for_each_segment(|_, bytes| all = all.saturating_add(bytes));
        all
    }
}

/// Returns the number of blocks that a block stands for.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn n_represented(bytes: u64, sample_bytes: u64) -> u64 {
    match sample_bytes {
        0 => 1,
        every => sample_weight(bytes, every).round() as u64,
    }
}

/// What a device holds at a moment, by the numbers of stacks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct HeldSums {
    /// The bytes of the blocks of each stack, and their number: of a sampled device, of all that they stand for.
    pub(crate) blocks: BTreeMap<StackId, (u64, u64)>,
    /// The bytes of the segments of each stack.
    pub(crate) segments: BTreeMap<StackId, u64>,
    has_segments: bool,
}

impl HeldSums {
    /// Returns a segment for each stack of segments, with the blocks of each stack as one; without segments the blocks alone.
    pub(super) fn segments(&self, renumber: &mut dyn FnMut(StackId) -> StackId) -> Vec<InventorySegment> {
        let mut at = 0;
        let mut blocks: Vec<InventoryBlock> = Vec::new();
        for (stack, (bytes, _)) in self.blocks.iter().filter(|(_, (bytes, _))| *bytes > 0) {
            blocks.push(block(at, *bytes, renumber(*stack)));
            at = at.saturating_add(*bytes);
        }
        if !self.has_segments && !blocks.is_empty() {
            return vec![InventorySegment::of_blocks(blocks)];
        }
        let (mut all, mut start, mut rest) = (Vec::new(), 0_u64, blocks.into_iter().peekable());
        for (stack, bytes) in &self.segments {
            let end = start.saturating_add(*bytes);
            let mut inside = Vec::new();
            while let Some(next) = rest.peek_mut().filter(|next| next.address.0 < end) {
                let left = next.address.0 + next.size_bytes;
                if left <= end {
                    inside.extend(rest.next());
                } else {
                    // The rest of it is in the next segment.
                    inside.push(block(next.address.0, end - next.address.0, next.stack));
                    *next = block(end, left - end, next.stack);
                }
            }
            all.push(segment(start, *bytes, renumber(*stack), inside));
            start = end;
        }
        for outside in rest {
            all.push(segment(outside.address.0, outside.size_bytes, outside.stack, vec![outside]));
        }
        all
    }
}

fn block(at: u64, bytes: u64, stack: StackId) -> InventoryBlock {
    InventoryBlock {
        address: Address(at),
        size_bytes: bytes,
        requested_bytes: bytes,
        state: BlockState::ActiveAllocated,
        stack,
    }
}

fn segment(at: u64, bytes: u64, stack: StackId, blocks: Vec<InventoryBlock>) -> InventorySegment {
    InventorySegment {
        address: Address(at),
        size_bytes: bytes,
        stream: StreamId::DEFAULT,
        kind: PoolKind::Large,
        pool: PoolId::DEFAULT,
        is_expandable: false,
        stack,
        blocks: tiled(at, at.saturating_add(bytes), blocks.into_iter()),
    }
}
