//! Counts the uses of each text, frame and stack before the first byte is written: the most used get short numbers.

#![forbid(unsafe_code)]

use super::out::Short;
use crate::{
    model::{
        Block, Field, Segment, Shape, Slot, Snapshot, SnapshotSource, StackIndex, StackTable, TraceEntry,
        Value, Word,
    },
    words::{Action, BlockState, PoolKind, SeededMap},
};

/// The count of numbers that take one byte.
const N_SHORT: usize = 256;

/// The uses of a text, a frame or a stack, and its number in the memo.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoEntry {
    pub(super) n_uses: u32,
    /// Its number in the memo, or [`NO_ID`].
    pub(super) id: u32,
    /// Whether it was written out before.
    pub(super) is_written: bool,
}

/// No number was assigned.
pub(super) const NO_ID: u32 = u32::MAX;

impl Default for MemoEntry {
    fn default() -> Self {
        MemoEntry { n_uses: 0, id: NO_ID, is_written: false }
    }
}

impl MemoEntry {
    /// Returns the opcode that fetches it, if it was written before.
    #[inline(always)]
    pub(super) fn get(self) -> Option<Short> {
        self.is_written.then(|| Short::get(self.id))
    }
}

/// Everything that may be memoized, with its number of uses.
#[derive(Debug)]
pub(super) struct Census<'a> {
    pub(super) texts: Vec<MemoEntry>,
    /// The texts themselves, in the same order.
    pub(super) words: Vec<&'a str>,
    text_ids: SeededMap<&'a str, usize>,
    pub(super) frames: Vec<MemoEntry>,
    pub(super) stacks: Vec<MemoEntry>,
    /// Uses of each shape.
    pub(super) shapes: Vec<u32>,
    /// The texts of the actions, of the states and of the kinds of pool.
    pub(super) actions: [usize; 10],
    pub(super) states: [usize; 3],
    pub(super) kinds: [usize; 2],
    /// The first unused number.
    pub(super) next_id: u32,
}

impl<'a> Census<'a> {
    /// The place of one of the format's words among the texts.
    #[inline(always)]
    pub(super) fn place_of_word(&self, word: Word) -> Option<usize> {
        match word {
            Word::Action(action) => action.map(|action| self.actions[action as usize]),
            Word::State(state) => state.map(|state| self.states[state as usize]),
            Word::Kind(kind) => kind.map(|kind| self.kinds[kind as usize]),
        }
    }

    /// Counts the uses in a snapshot and assigns the short numbers.
    pub(super) fn new(document: &'a dyn SnapshotSource) -> Self {
        let snapshot = document.head();
        let mut census = Census {
            texts: Vec::new(),
            words: Vec::new(),
            text_ids: SeededMap::default(),
            frames: vec![MemoEntry::default(); snapshot.stacks.all_frames().len()],
            stacks: vec![MemoEntry::default(); snapshot.stacks.len()],
            shapes: vec![0; snapshot.shapes.len()],
            actions: [0; 10],
            states: [0; 3],
            kinds: [0; 2],
            next_id: 0,
        };
        census.actions = std::array::from_fn(|index| census.text(Action::ALL[index].name(), 0));
        census.states = std::array::from_fn(|index| census.text(BlockState::ALL[index].name(), 0));
        census.kinds = [PoolKind::Small, PoolKind::Large].map(|kind| census.text(kind.name(), 0));
        census.count(document);
        census.assign_short_numbers();
        census
    }

    /// Returns the index of a text in [`Census::texts`].
    pub(super) fn place(&self, text: &str) -> Option<usize> {
        self.text_ids.get(text).copied()
    }

    fn text(&mut self, text: &'a str, n_uses: u32) -> usize {
        let next = self.texts.len();
        let place = *self.text_ids.entry(text).or_insert(next);
        if place == next {
            self.texts.push(MemoEntry::default());
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

    /// Counts the frames of stacks; a stack is written once.
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

    /// Assigns the one-byte numbers to whatever is used most.
    fn assign_short_numbers(&mut self) {
        // The empty stack takes one byte without a number.
        self.stacks[StackTable::EMPTY.index()].n_uses = 0;
        let n_tables = [self.texts.len(), self.frames.len(), self.stacks.len()];
        let mut ranking: Vec<(u32, usize, usize)> = Vec::with_capacity(n_tables.iter().sum());
        for (table, entries) in [&self.texts, &self.frames, &self.stacks].into_iter().enumerate() {
            let shared = entries.iter().enumerate().filter(|(_, entry)| entry.n_uses > 1);
            ranking.extend(shared.map(|(at, entry)| (u32::MAX - entry.n_uses, table, at)));
        }
        if ranking.len() > N_SHORT {
            ranking.select_nth_unstable(N_SHORT);
            ranking.truncate(N_SHORT);
        }
        ranking.sort_unstable();
        for (_, table, at) in ranking {
            let entries = [&mut self.texts, &mut self.frames, &mut self.stacks];
            entries[table][at].id = self.next_id;
            self.next_id += 1;
        }
    }
}

/// Adds without overflow; counts only decide an order.
fn add(n_uses: &mut u32, more: u32) {
    *n_uses = n_uses.saturating_add(more);
}
