//! The blocks of one device, with the moments from and until which they were in use.
//!
//! If the first event of an address is a free, there was a block before the history. The same is true if
//! no event names an address and its block is in use at the end. Together these are all blocks that were
//! in use at the start, so the figures are exact even if the ring lost the oldest entries.
//!
//! Contradictions are counted, and the lives are those that fit the entries best.

use crate::{
    history::{Displaced, Forward, FreeStacks, Life, Moment, State, Step, active_blocks},
    model::{Block, RecordedSettings, Segment, StackIndex, StackTable, TraceEntry},
    words::{Action, Address, BlockState, SeededMap, torch::BLOCK_BYTES},
};

/// The number that means "no life" in `Lives::of_entry`.
pub(super) const NONE: u32 = u32::MAX;

/// The lives of a trace, numbered as [`Forward`] numbers them.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    pub(crate) all: Vec<Life>,
    /// For each entry, the life that it starts, frees or ends.
    pub(super) of_entry: Vec<u32>,
    /// The second life that an entry ends or starts, because its address was allocated again or is in use at the end
    /// without an event.
    pub(super) second_of: SeededMap<u32, u32>,
    /// The number of entries and blocks that contradict earlier entries.
    pub(super) n_contradictions: usize,
    pub(super) first_contradiction: Option<usize>,
    /// The number of blocks that end with the request of their free, because the trace has no completions.
    pub(super) n_uncompleted: usize,
    /// The entries that name a block, by its address and the moment from which it is in use.
    pub(super) named_by: SeededMap<(Address, Moment), Vec<u32>>,
    walk: Forward,
    free_stacks: FreeStacks,
    /// The number of blocks whose free was completed or is pending at the end, but was never requested.
    pub(super) n_unrequested: usize,
    has_requests: bool,
    has_completions: bool,
    rounding_bytes: u64,
}

impl Lives {
    /// Reads the entries and the segments of a device; `recorded` has further facts about it.
    pub(crate) fn new(entries: &[TraceEntry], segments: &[&Segment], recorded: RecordedSettings) -> Lives {
        let has = |action| entries.iter().any(|entry| entry.action == Some(action));
        let mut lives = Lives {
            of_entry: vec![NONE; entries.len()],
            has_requests: has(Action::FreeRequested),
            has_completions: has(Action::FreeCompleted),
            rounding_bytes: rounding_bytes(segments),
            ..Lives::default()
        };
        entries.iter().enumerate().for_each(|(index, entry)| lives.step(index, entry));
        if lives.n_unrequested > 0 && !lives.has_requests {
            lives.request_at_the_end_of_lives();
        }
        if !segments.is_empty() {
            lives.compare_with_the_end(segments);
        } else if !lives.has_completions {
            lives.end_with_the_requests();
        }
        if recorded.frees_as_allocated || lives.free_stacks.are_of_allocations() {
            lives.name_the_freed(entries);
        }
        lives.weigh(recorded);
        lives
    }

    /// Makes sampled blocks stand for others of their size.
    fn weigh(&mut self, recorded: RecordedSettings) {
        if recorded.weight_bytes > 0 {
            for life in &mut self.all {
                life.represented_bytes = recorded.represented_bytes(life.requested_bytes);
            }
        }
    }

    /// Makes the blocks with some stacks count nothing, because their memory counts elsewhere.
    pub(super) fn count_elsewhere(&mut self, is_elsewhere: impl Fn(StackIndex) -> bool) {
        for life in self.all.iter_mut().filter(|life| life.stack.is_some_and(&is_elsewhere)) {
            life.represented_bytes = 0;
        }
    }

    fn step(&mut self, index: usize, entry: &TraceEntry) {
        let now = Moment::after(index);
        match self.walk.step(entry) {
            Step::Begin { life, displaced } => {
                if let Some(displaced) = displaced {
                    self.displace(index, displaced);
                }
                self.all.push(Life { from: now, stack: entry.stack, ..self.begun_by(entry) });
                self.of_entry[index] = life;
            }
            Step::Request { life, is_prior, .. } => {
                if is_prior {
                    self.all.push(self.begun_by(entry));
                } else {
                    self.compare_stacks(life, entry);
                }
                self.life(life).requested = now;
                self.of_entry[index] = life;
            }
            Step::End { life, is_prior, was_requested, .. } => {
                if is_prior {
                    // Its request came before the history.
                    self.all.push(Life { requested: Moment::START, ..self.begun_by(entry) });
                } else {
                    self.n_unrequested += usize::from(!was_requested);
                }
                let ended = self.life(life);
                ended.until = now;
                ended.requested = ended.requested.min(now);
                self.of_entry[index] = life;
            }
            Step::Contradiction(_) => self.contradiction(Some(index)),
            Step::Other if entry.action == Some(Action::Annotate) => self.name(now, entry),
            Step::Other => {}
        }
    }

    /// Records the entry at which a block gets a name.
    fn name(&mut self, now: Moment, entry: &TraceEntry) {
        let from = match self.walk.spot(entry.address) {
            // The block is from before the history; its life starts with a later entry or with its end.
            None => Moment::START,
            Some(spot) if spot.state == State::Free => return,
            Some(spot) => self.life(spot.life).from,
        };
        self.named_by.entry((entry.address, from)).or_default().push(now.0 - 1);
    }

    /// Moves the requests of blocks from before the history to the ends of their lives. If requests are
    /// not recorded, no other moment is known.
    fn request_at_the_end_of_lives(&mut self) {
        let early = self.all.iter_mut().filter(|life| life.requested == Moment::START);
        early.for_each(|life| life.requested = life.until);
    }

    /// Ends the lives whose free was requested, in a trace without completions and without segments.
    fn end_with_the_requests(&mut self) {
        for life in self.all.iter_mut().filter(|life| life.requested < life.until) {
            life.until = life.requested;
            self.n_uncompleted += 1;
        }
    }

    fn life(&mut self, life: u32) -> &mut Life {
        &mut self.all[life as usize]
    }

    fn contradiction(&mut self, entry: Option<usize>) {
        self.n_contradictions += 1;
        self.first_contradiction = self.first_contradiction.or(entry);
    }

    /// Returns a life from before the history until its end, with the figures of an entry.
    fn begun_by(&self, entry: &TraceEntry) -> Life {
        let rounded = entry.size.max(1).checked_next_multiple_of(self.rounding_bytes);
        Life::unbounded(entry.address, entry.size, rounded.unwrap_or(entry.size), entry.stream)
    }

    /// Ends a life whose end was not recorded.
    fn displace(&mut self, index: usize, displaced: Displaced) {
        if displaced.was_requested && !self.has_completions {
            let life = self.life(displaced.life);
            life.until = life.requested;
            self.n_uncompleted += 1;
            return;
        }
        self.contradiction(Some(index));
        let now = Moment::after(index);
        let life = self.life(displaced.life);
        (life.requested, life.until) = (life.requested.min(now), now);
        self.second_of.insert(now.0 - 1, displaced.life);
    }

    fn compare_stacks(&mut self, life: u32, entry: &TraceEntry) {
        let life = self.all[life as usize];
        if !life.is_from_before() {
            self.free_stacks.compare(life.stack, entry.stack);
        }
    }

    /// Compares the lives with the blocks at the end, whose sizes and stacks are exact.
    fn compare_with_the_end(&mut self, segments: &[&Segment]) {
        let mut is_there = vec![false; self.all.len()];
        for found in segments.iter().flat_map(|segment| active_blocks(segment)) {
            match self.walk.spot(found.block.address) {
                Some(spot) if spot.state != State::Free => {
                    if let Some(is_there) = is_there.get_mut(spot.life as usize) {
                        *is_there = true;
                    }
                    self.settle(spot.life, &found.block);
                }
                other => self.found_at_the_end(other.map(|spot| spot.life), &found.block, found.segment),
            }
        }
        for life in (0..is_there.len()).filter(|life| !is_there[*life]) {
            let has_completions = self.has_completions;
            let found = &mut self.all[life];
            if found.until != Moment::NEVER {
                continue;
            }
            // In a trace without completions, blocks end with their requests.
            if found.requested != Moment::NEVER && !has_completions {
                found.until = found.requested;
                self.n_uncompleted += 1;
            } else {
                let entry = found.from.entry();
                self.contradiction(entry);
            }
        }
    }

    /// Sets the size and the stack of a life that reaches the end to its block's.
    fn settle(&mut self, life: u32, block: &Block) {
        let is_pending = block.state == Some(BlockState::ActivePendingFree);
        let life = self.life(life);
        life.bytes = block.size;
        life.stack = better(life.stack, block.stack);
        let is_requested = life.requested != Moment::NEVER;
        let entry = life.from.entry();
        if is_pending && !is_requested && !self.has_requests {
            // Requests are not recorded, so the moment of this one is unknown.
            self.n_unrequested += 1;
        } else if is_requested != is_pending {
            self.contradiction(entry);
        }
    }

    /// Adds a block in use at the end that has no entry, or whose address is free after its entries.
    fn found_at_the_end(&mut self, earlier: Option<u32>, block: &Block, segment: &Segment) {
        let from = earlier.map_or(Moment::START, |earlier| self.life(earlier).until);
        if earlier.is_some() {
            self.contradiction(None);
        }
        let is_pending = block.state == Some(BlockState::ActivePendingFree);
        let state = if is_pending { State::Pending } else { State::Live };
        let life = self.walk.begin(block.address, block.requested_size, state);
        self.all.push(Life {
            stack: block.stack,
            from,
            requested: if is_pending { from } else { Moment::NEVER },
            ..Life::unbounded(block.address, block.requested_size, block.size, segment.stream)
        });
        if from > Moment::START {
            self.second_of.insert(from.0 - 1, life);
        }
    }

    /// Sets the stacks of blocks from before the history to those of their frees, which have the stacks of the
    /// allocations.
    fn name_the_freed(&mut self, entries: &[TraceEntry]) {
        let nameless = self.all.iter_mut().filter(|life| life.is_from_before() && life.stack.is_none());
        for life in nameless {
            let freed = if life.requested > Moment::START { life.requested } else { life.until };
            life.stack = freed.entry().and_then(|entry| entries.get(entry)).and_then(|entry| entry.stack);
        }
    }
}

/// Returns the number that block sizes are multiples of: 512, or 1 if the blocks at the end show that it is not
/// PyTorch's allocator.
fn rounding_bytes(segments: &[&Segment]) -> u64 {
    let mut blocks = segments.iter().flat_map(|segment| &segment.blocks);
    let is_torch = blocks.all(|block| block.size.is_multiple_of(BLOCK_BYTES));
    if is_torch { BLOCK_BYTES } else { 1 }
}

/// Returns the stack of an entry, or that of its block if the entry has none, as in a trace recorded with
/// context "state".
fn better(stack: Option<StackIndex>, of_block: Option<StackIndex>) -> Option<StackIndex> {
    let has_frames = |stack: &StackIndex| *stack != StackTable::EMPTY;
    stack.filter(has_frames).or(of_block)
}
