//! How often each thing is used, counted before the first byte: it decides who gets a short number.

#![forbid(unsafe_code)]

use rustc_hash::FxHashMap;

use super::out::Short;
use crate::{
    event::Action,
    inventory::{BlockState, PoolKind},
    snapshot::{
        Block, Field, Segment, Shape, Slot, Snapshot, SnapshotSource, StackIndex, StackTable, TraceEntry,
        Value,
    },
};

/// Numbers that take one byte.
const N_SHORT: usize = 256;

/// A text, a frame or a stack, as the memo sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entrant {
    pub(super) n_uses: u32,
    /// Its number in the memo, once it has one.
    pub(super) id: u32,
    /// Whether it was written out already.
    pub(super) is_written: bool,
}

/// No number yet.
pub(super) const NO_ID: u32 = u32::MAX;

impl Default for Entrant {
    fn default() -> Self {
        Entrant { n_uses: 0, id: NO_ID, is_written: false }
    }
}

impl Entrant {
    /// The opcode that fetches it, once it was written.
    #[inline(always)]
    pub(super) fn get(self) -> Option<Short> {
        self.is_written.then(|| Short::get(self.id))
    }
}

/// Everything that may stand in the memo, with its uses.
#[derive(Debug)]
pub(super) struct Census<'a> {
    pub(super) texts: Vec<Entrant>,
    /// The texts themselves, in the same order.
    pub(super) words: Vec<&'a str>,
    text_ids: FxHashMap<&'a str, usize>,
    pub(super) frames: Vec<Entrant>,
    pub(super) stacks: Vec<Entrant>,
    /// Uses of each shape.
    pub(super) shapes: Vec<u32>,
    /// The texts of the actions, of the states and of the kinds of pool.
    pub(super) actions: [usize; 10],
    pub(super) states: [usize; 3],
    pub(super) kinds: [usize; 2],
    /// The first number that nothing has.
    pub(super) next_id: u32,
}

impl<'a> Census<'a> {
    /// Counts a snapshot and gives the short numbers away.
    pub(super) fn of(document: &'a dyn SnapshotSource) -> Self {
        let snapshot = document.head();
        let mut census = Census {
            texts: Vec::new(),
            words: Vec::new(),
            text_ids: FxHashMap::default(),
            frames: vec![Entrant::default(); snapshot.stacks.all_frames().len()],
            stacks: vec![Entrant::default(); snapshot.stacks.len()],
            shapes: vec![0; snapshot.shapes.len()],
            actions: [0; 10],
            states: [0; 3],
            kinds: [0; 2],
            next_id: 0,
        };
        census.actions = Action::ALL.map(|action| census.text(action.name(), 0));
        census.states = BlockState::ALL.map(|state| census.text(state.name(), 0));
        census.kinds = [PoolKind::Small, PoolKind::Large].map(|kind| census.text(kind.name(), 0));
        census.count(document);
        census.give_short_numbers();
        census
    }

    /// The place of a text among [`Census::texts`].
    pub(super) fn place(&self, text: &str) -> Option<usize> {
        self.text_ids.get(text).copied()
    }

    fn text(&mut self, text: &'a str, n_uses: u32) -> usize {
        let next = self.texts.len();
        let place = *self.text_ids.entry(text).or_insert(next);
        if place == next {
            self.texts.push(Entrant::default());
            self.words.push(text);
        }
        self.texts[place].n_uses = self.texts[place].n_uses.saturating_add(n_uses);
        place
    }

    fn count(&mut self, document: &'a dyn SnapshotSource) {
        let snapshot = document.head();
        let uses = document.use_counts();
        for (shape, n_uses) in uses.shapes() {
            add(&mut self.shapes[shape.index()], n_uses);
        }
        for (stack, n_uses) in uses.stacks() {
            add(&mut self.stacks[stack.index()].n_uses, n_uses);
        }
        for (action, n_uses) in uses.actions() {
            add(&mut self.texts[self.actions[action as usize]].n_uses, n_uses);
        }
        snapshot.host_traces.iter().for_each(|entry| self.entry(entry));
        snapshot
            .segments
            .iter()
            .chain(&snapshot.host_segments)
            .for_each(|segment| self.segment(snapshot, segment));
        for annotation in &snapshot.external_annotations {
            add(&mut self.shapes[annotation.shape.index()], 1);
            self.text(&annotation.stage, 1);
            self.text(&annotation.name, 1);
        }
        self.frames_of(&snapshot.stacks);
        for frame in snapshot.stacks.all_frames() {
            add(&mut self.shapes[frame.shape.index()], 1);
            self.text(&frame.name, 1);
            self.text(&frame.filename, 1);
        }
        for (id, shape) in snapshot.shapes.iter() {
            self.shape(shape, self.shapes[id.index()]);
        }
        self.shape(&snapshot.shape, 1);
    }

    fn entry(&mut self, entry: &TraceEntry) {
        add(&mut self.shapes[entry.shape.index()], 1);
        self.stack(entry.stack);
        if let Some(action) = entry.action {
            add(&mut self.texts[self.actions[action as usize]].n_uses, 1);
        }
    }

    fn segment(&mut self, snapshot: &Snapshot, segment: &Segment) {
        add(&mut self.shapes[segment.shape.index()], 1);
        self.stack(segment.stack);
        if let Some(kind) = segment.kind {
            add(&mut self.texts[self.kinds[kind as usize]].n_uses, 1);
        }
        segment.blocks.iter().for_each(|block| self.block(snapshot, block));
    }

    fn block(&mut self, snapshot: &Snapshot, block: &Block) {
        add(&mut self.shapes[block.shape.index()], 1);
        // A stack from PyTorch 2.0's `history` is not written as one.
        self.stack(block.stack.filter(|_| snapshot.shapes.get(block.shape).has(Field::Frames)));
        if let Some(state) = block.state {
            add(&mut self.texts[self.states[state as usize]].n_uses, 1);
        }
    }

    fn stack(&mut self, stack: Option<StackIndex>) {
        if let Some(stack) = stack {
            add(&mut self.stacks[stack.index()].n_uses, 1);
        }
    }

    /// A frame is written where a stack is written, and a stack only once.
    fn frames_of(&mut self, stacks: &StackTable) {
        for (stack, members) in self.stacks.iter().zip(stacks.all_stacks()) {
            if stack.n_uses > 0 {
                members.iter().for_each(|frame| add(&mut self.frames[frame.index()].n_uses, 1));
            }
        }
    }

    fn shape(&mut self, shape: &'a Shape, n_uses: u32) {
        for (key, slot) in &shape.slots {
            self.text(key, n_uses);
            if let Slot::Value(Value::Text(text)) = slot {
                self.text(text, n_uses);
            }
        }
    }

    /// The most used get the numbers that take one byte, whatever they are.
    fn give_short_numbers(&mut self) {
        // The empty stack takes one byte as it is.
        self.stacks[StackTable::EMPTY.index()].n_uses = 0;
        let n_tables = [self.texts.len(), self.frames.len(), self.stacks.len()];
        let mut ranking: Vec<(u32, usize, usize)> = Vec::with_capacity(n_tables.iter().sum());
        for (table, entrants) in [&self.texts, &self.frames, &self.stacks].into_iter().enumerate() {
            let shared = entrants.iter().enumerate().filter(|(_, entrant)| entrant.n_uses > 1);
            ranking.extend(shared.map(|(at, entrant)| (u32::MAX - entrant.n_uses, table, at)));
        }
        if ranking.len() > N_SHORT {
            ranking.select_nth_unstable(N_SHORT);
            ranking.truncate(N_SHORT);
        }
        ranking.sort_unstable();
        for (_, table, at) in ranking {
            let entrants = [&mut self.texts, &mut self.frames, &mut self.stacks];
            entrants[table][at].id = self.next_id;
            self.next_id += 1;
        }
    }
}

/// Uses beyond 32 bits are many all the same.
fn add(n_uses: &mut u32, more: u32) {
    *n_uses = n_uses.saturating_add(more);
}
