//! The trace of one device, walked once: which blocks lived from when to when.
//!
//! An address whose first event is a free held a block before the history. So
//! did one that no event names and whose block is in use at the end. Together
//! they are everything that was there at the beginning, so that a history that
//! a ring cut short still gives exact figures.

use rustc_hash::FxHashMap;

use super::{
    life::{Life, Moment},
    request::requested_bytes,
};
use crate::{
    event::{Action, StreamId},
    inventory::BlockState,
    snapshot::{Block, Segment, Snapshot, StackIndex, TraceEntry},
};

/// No life belongs to an entry.
pub(super) const NONE: u32 = u32::MAX;

/// The least size of a block, and what sizes are multiples of, in PyTorch's allocator.
const TORCH_ROUNDING_BYTES: u64 = 512;

/// What the walk found.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub(super) lives: Vec<Life>,
    /// By entry: the life that it begins, frees or ends.
    pub(super) life_of: Vec<u32>,
    /// A second life that an entry ends or begins: its address was handed out again, or in use at the
    /// end, without an event that says so.
    pub(super) second_of: FxHashMap<u32, u32>,
    /// Entries and blocks that cannot be, given those before.
    pub(super) n_contradictions: usize,
    pub(super) first_contradiction: Option<usize>,
    /// The newest life of each address.
    newest: FxHashMap<u64, u32>,
    /// How many frees showed their alloc's stack, and how many another.
    n_same_stack: usize,
    n_other_stack: usize,
    /// Blocks whose free was completed and never requested.
    n_unrequested: usize,
    has_requests: bool,
    has_completions: bool,
    rounding_bytes: u64,
}

impl Walk {
    pub(super) fn of(snapshot: &Snapshot, entries: &[TraceEntry], segments: &[&Segment]) -> Walk {
        let has = |action| entries.iter().any(|entry| entry.action == Some(action));
        let mut walk = Walk {
            life_of: vec![NONE; entries.len()],
            has_requests: has(Action::FreeRequested),
            has_completions: has(Action::FreeCompleted),
            rounding_bytes: rounding_bytes(segments),
            ..Walk::default()
        };
        for (index, entry) in entries.iter().enumerate() {
            match entry.action {
                Some(Action::Alloc) => walk.alloc(index, entry),
                Some(Action::FreeRequested) => walk.request(index, entry),
                Some(Action::FreeCompleted) => walk.complete(index, entry),
                _ => {}
            }
        }
        if walk.n_unrequested > 0 && !walk.has_requests {
            walk.request_at_the_end_of_lives();
        }
        if !segments.is_empty() {
            walk.meet_the_end(snapshot, segments);
        } else if !walk.has_completions {
            walk.lives.iter_mut().for_each(|life| life.until = life.until.min(life.requested));
        }
        walk.name_the_freed(entries);
        walk
    }

    /// Where requests are not recorded, those of blocks from before the history did not come earlier.
    fn request_at_the_end_of_lives(&mut self) {
        let early = self.lives.iter_mut().filter(|life| life.requested == Moment::START);
        early.for_each(|life| life.requested = life.until);
    }

    fn newest(&self, address: u64) -> Option<u32> {
        self.newest.get(&address).copied()
    }

    fn life(&mut self, life: u32) -> &mut Life {
        &mut self.lives[life as usize]
    }

    fn contradiction(&mut self, entry: Option<usize>) {
        self.n_contradictions += 1;
        self.first_contradiction = self.first_contradiction.or(entry);
    }

    /// A life that begins before the history and does not end, with the figures of an entry.
    fn begun_by(&self, entry: &TraceEntry) -> Life {
        let rounded = entry.size.max(1).checked_next_multiple_of(self.rounding_bytes);
        Life {
            address: entry.address,
            requested_bytes: entry.size,
            bytes: rounded.unwrap_or(entry.size),
            stream: entry.stream,
            stack: None,
            from: Moment::START,
            requested: Moment::NEVER,
            until: Moment::NEVER,
        }
    }

    /// Adds a life and makes it the newest of its address.
    fn begin(&mut self, life: Life) -> u32 {
        let index = u32::try_from(self.lives.len()).unwrap_or(NONE);
        self.newest.insert(life.address, index);
        self.lives.push(life);
        index
    }

    fn alloc(&mut self, index: usize, entry: &TraceEntry) {
        let now = Moment::after(index);
        let before = self.newest(entry.address).filter(|before| self.life(*before).until == Moment::NEVER);
        if let Some(before) = before {
            self.displace(index, before);
        }
        let life = Life { from: now, stack: entry.stack, ..self.begun_by(entry) };
        self.life_of[index] = self.begin(life);
    }

    /// Ends a life of which not even the request was recorded, or not its completion.
    fn displace(&mut self, index: usize, before: u32) {
        let requested = self.life(before).requested;
        if requested != Moment::NEVER && !self.has_completions {
            self.life(before).until = requested;
            return;
        }
        self.contradiction(Some(index));
        let now = Moment::after(index);
        let life = self.life(before);
        (life.requested, life.until) = (life.requested.min(now), now);
        self.second_of.insert(now.0 - 1, before);
    }

    fn request(&mut self, index: usize, entry: &TraceEntry) {
        let now = Moment::after(index);
        match self.newest(entry.address) {
            None => {
                let life = Life { requested: now, ..self.begun_by(entry) };
                self.life_of[index] = self.begin(life);
            }
            Some(life) if self.life(life).requested == Moment::NEVER => {
                self.compare_stacks(life, entry);
                self.life(life).requested = now;
                self.life_of[index] = life;
            }
            Some(_) => self.contradiction(Some(index)),
        }
    }

    fn complete(&mut self, index: usize, entry: &TraceEntry) {
        let now = Moment::after(index);
        match self.newest(entry.address) {
            None => {
                // Its request came before the history.
                let life = Life { requested: Moment::START, until: now, ..self.begun_by(entry) };
                self.life_of[index] = self.begin(life);
            }
            Some(life) if self.life(life).until == Moment::NEVER => {
                self.n_unrequested += usize::from(self.life(life).requested == Moment::NEVER);
                let found = self.life(life);
                found.until = now;
                found.requested = found.requested.min(now);
                self.life_of[index] = life;
            }
            Some(_) => self.contradiction(Some(index)),
        }
    }

    fn compare_stacks(&mut self, life: u32, entry: &TraceEntry) {
        let life = self.lives[life as usize];
        if let (Some(one), Some(other), false) = (life.stack, entry.stack, life.is_from_before()) {
            *(if one == other { &mut self.n_same_stack } else { &mut self.n_other_stack }) += 1;
        }
    }

    /// Holds the walk against the blocks of the end, which know sizes and stacks better.
    fn meet_the_end(&mut self, snapshot: &Snapshot, segments: &[&Segment]) {
        let mut is_there = vec![false; self.lives.len()];
        for (address, stream, block) in active_blocks(snapshot, segments) {
            match self.newest(address) {
                Some(life) if self.life(life).until == Moment::NEVER => {
                    if let Some(is_there) = is_there.get_mut(life as usize) {
                        *is_there = true;
                    }
                    self.settle(life, block);
                }
                other => self.found_at_the_end(snapshot, other, address, stream, block),
            }
        }
        for life in (0..is_there.len()).filter(|life| !is_there[*life]) {
            let has_completions = self.has_completions;
            let found = &mut self.lives[life];
            if found.until != Moment::NEVER {
                continue;
            }
            // A trace without completions tells by its requests when blocks ended.
            if found.requested != Moment::NEVER && !has_completions {
                found.until = found.requested;
            } else {
                let entry = found.from.entry();
                self.contradiction(entry);
            }
        }
    }

    /// A life that reaches the end, and its block.
    fn settle(&mut self, life: u32, block: &Block) {
        let is_pending = block.state == Some(BlockState::ActivePendingFree);
        let life = self.life(life);
        life.bytes = block.size;
        life.stack = better(life.stack, block.stack);
        let is_told = life.requested != Moment::NEVER;
        let entry = life.from.entry();
        // Where no request is recorded, when this one was made is not known.
        if is_told != is_pending && (is_told || self.has_requests) {
            self.contradiction(entry);
        }
    }

    /// A block in use at the end of which the trace knows nothing, or only what was there earlier.
    fn found_at_the_end(
        &mut self,
        snapshot: &Snapshot,
        earlier: Option<u32>,
        address: u64,
        stream: StreamId,
        block: &Block,
    ) {
        let from = earlier.map_or(Moment::START, |earlier| self.life(earlier).until);
        if earlier.is_some() {
            self.contradiction(None);
        }
        let is_pending = block.state == Some(BlockState::ActivePendingFree);
        let life = self.begin(Life {
            address,
            requested_bytes: requested_bytes(snapshot, block),
            bytes: block.size,
            stream,
            stack: block.stack,
            from,
            requested: if is_pending { from } else { Moment::NEVER },
            until: Moment::NEVER,
        });
        if from > Moment::START {
            self.second_of.insert(from.0 - 1, life);
        }
    }

    /// Recorded with context "alloc", a free shows its block's allocation stack (snapshot-format.md
    /// 2.2). So it does if every free whose alloc is known does; then the others tell who
    /// allocated what was there before the history.
    fn name_the_freed(&mut self, entries: &[TraceEntry]) {
        if self.n_same_stack == 0 || self.n_other_stack > 0 {
            return;
        }
        let nameless = self.lives.iter_mut().filter(|life| life.is_from_before() && life.stack.is_none());
        for life in nameless {
            let freed = if life.requested > Moment::START { life.requested } else { life.until };
            life.stack = freed.entry().and_then(|entry| entries.get(entry)).and_then(|entry| entry.stack);
        }
    }
}

/// What sizes of blocks are multiples of: 512, unless blocks of the end say that this is not PyTorch's allocator.
fn rounding_bytes(segments: &[&Segment]) -> u64 {
    let mut blocks = segments.iter().flat_map(|segment| &segment.blocks);
    let is_torch = blocks.all(|block| block.size.is_multiple_of(TORCH_ROUNDING_BYTES));
    if is_torch { TORCH_ROUNDING_BYTES } else { 1 }
}

/// Entries recorded with context "state" have no stack, their blocks do.
fn better(stack: Option<StackIndex>, of_block: Option<StackIndex>) -> Option<StackIndex> {
    let has_frames = |stack: &StackIndex| *stack != crate::snapshot::StackTable::EMPTY;
    stack.filter(has_frames).or(of_block)
}

/// Every block in use with its address and its segment's stream. PyTorch 2.0 writes no addresses of blocks.
pub(super) fn active_blocks<'a>(
    snapshot: &'a Snapshot,
    segments: &[&'a Segment],
) -> impl Iterator<Item = (u64, StreamId, &'a Block)> {
    let placed = segments.iter().flat_map(|segment| {
        let stream = segment.stream;
        super::segments::blocks(snapshot, segment).map(move |(address, block)| (address, stream, block))
    });
    placed.filter(|(_, _, block)| block.state.is_some_and(BlockState::is_active))
}
