//! Containers become stacks, frames and plain values, each of them once.
//!
//! Recursion here is bounded: the machine lets nothing through that nests
//! deeper than a hundred containers.

#![forbid(unsafe_code)]

use std::collections::HashMap;

use super::{
    node::{Item, Kind, Node, NodeId},
    parser::{Halt, Machine, Step},
};
use crate::{
    error::Error,
    snapshot::{Builder, Field, Frame, FrameFields, FrameIndex, Slot, StackIndex, Text, Value},
};

impl Machine<'_> {
    /// The stack that a list of frames is, if it is one.
    pub(super) fn stack_of(&mut self, list: NodeId) -> Option<StackIndex> {
        if let Some(known) = self.made.stacks.get(&list) {
            return *known;
        }
        self.nodes.get_mut(list).is_frozen = true;
        let stack = self.new_stack(list);
        self.made.stacks.insert(list, stack);
        stack
    }

    fn new_stack(&mut self, list: NodeId) -> Option<StackIndex> {
        let node = self.nodes.get(list);
        if node.kind != Kind::List {
            return None;
        }
        let dicts: Option<Vec<NodeId>> =
            node.items.iter().map(|item| if let Item::Node(id) = item { Some(*id) } else { None }).collect();
        let frames: Option<Vec<FrameIndex>> = dicts?.into_iter().map(|dict| self.frame_of(dict)).collect();
        Some(self.snapshot.stacks.intern_stack(&frames?))
    }

    /// The frame that a dictionary is, if it is one.
    pub(super) fn frame_of(&mut self, dict: NodeId) -> Option<FrameIndex> {
        if let Some(known) = self.made.frames.get(&dict) {
            return *known;
        }
        self.nodes.get_mut(dict).is_frozen = true;
        let frame = self.new_frame(dict);
        self.made.frames.insert(dict, frame);
        frame
    }

    fn new_frame(&mut self, dict: NodeId) -> Option<FrameIndex> {
        if self.nodes.get(dict).kind != Kind::Dict {
            return None;
        }
        let mut builder = Builder::<FrameFields>::default();
        for (key, item) in self.record_pairs(dict).ok()? {
            let name = self.words.get(key).text.clone();
            builder.set(&name, self.value(item).ok()?);
        }
        Some(self.snapshot.stacks.intern_frame(builder.finish(&mut self.snapshot.shapes)))
    }

    /// An item as a value that the model carries without giving it a meaning.
    pub(super) fn value(&mut self, item: Item) -> Step<Value> {
        Ok(match item {
            Item::None | Item::Absent => Value::None,
            Item::Bool(bool) => Value::Bool(bool),
            Item::Int(int) => Value::Int(int),
            Item::Float(bits) => Value::Float(f64::from_bits(bits)),
            Item::Text(id) => Value::Text(self.words.get(id).text.clone()),
            Item::Bytes(span) => Value::Bytes(self.span(span).into()),
            Item::Big(span) => Value::Big(self.span(span).into()),
            Item::Pair(at) => {
                let (a, b) = self.nodes.pairs[at as usize];
                Value::Tuple([Value::Int(a), Value::Int(b)].into())
            }
            Item::Node(id) => return self.container(id),
            Item::Stack(stack) => return self.stack_value(stack),
            Item::Entry(_) | Item::Entries(..) => return Err(Halt::Unusual),
        })
    }

    /// A list of frames where no stack is meant, such as in the `history` of
    /// PyTorch 2.0: the list that it was.
    fn stack_value(&mut self, stack: StackIndex) -> Step<Value> {
        if let Some(value) = self.made.stack_values.get(&stack) {
            let value = value.clone();
            self.repeat(1 + 8 * self.snapshot.stacks.members(stack).len() as u64, self.pos as u64)?;
            return Ok(value);
        }
        // The machine bounds how deep containers stand, but it counts a stack
        // as flat. One whose frames hold containers is left to the general
        // road, which sees them all; else stacks in frames could nest without end.
        let is_flat = |frame: &Frame| {
            let slots = &self.snapshot.shapes.get(frame.shape).slots;
            slots.iter().all(|(_, slot)| !matches!(slot, Slot::Value(value) if value.is_container()))
        };
        if !self.snapshot.stacks.frames(stack).all(is_flat) {
            return Err(Halt::Unusual);
        }
        let frame = |frame: &Frame| {
            let pair = |(key, slot): &(Text, Slot)| {
                let value = match slot {
                    Slot::Value(value) => value.clone(),
                    Slot::Field(Field::Name) => Value::Text(frame.name.clone()),
                    Slot::Field(Field::Filename) => Value::Text(frame.filename.clone()),
                    Slot::Field(_) => Value::unsigned(frame.line),
                };
                (Value::Text(key.clone()), value)
            };
            Value::Dict(self.snapshot.shapes.get(frame.shape).slots.iter().map(pair).collect())
        };
        let value = Value::List(self.snapshot.stacks.frames(stack).map(frame).collect());
        self.made.stack_values.insert(stack, value.clone());
        Ok(value)
    }

    fn span(&self, at: u32) -> &[u8] {
        let (from, to) = self.nodes.spans[at as usize];
        &self.bytes[from..to]
    }

    fn container(&mut self, id: NodeId) -> Step<Value> {
        if let Some(value) = self.made.values.get(&id) {
            let value = value.clone();
            self.repeat(u64::from(self.nodes.get(id).weight), self.nodes.get(id).offset)?;
            return Ok(value);
        }
        self.nodes.get_mut(id).is_frozen = true;
        let Node { kind, items, .. } = self.nodes.get(id);
        let (kind, items) = (*kind, items.clone());
        let value = if kind == Kind::Dict {
            let pairs = last_of_each(&items);
            let pair = |(key, item)| Ok((self.value(key)?, self.value(item)?));
            Value::Dict(pairs.into_iter().map(pair).collect::<Step<_>>()?)
        } else {
            let all = items.into_iter().map(|item| self.value(item)).collect::<Step<_>>()?;
            if kind == Kind::List { Value::List(all) } else { Value::Tuple(all) }
        };
        self.made.values.insert(id, value.clone());
        Ok(value)
    }

    /// Counts what stands in the file once and in the snapshot again, up to a bound.
    ///
    /// Sharing lets a file of a kilobyte stand for more values than there is memory.
    pub(super) fn repeat(&mut self, n_values: u64, offset: u64) -> Step<()> {
        self.made.n_repeated = self.made.n_repeated.saturating_add(n_values);
        if self.made.n_repeated > 16 * self.bytes.len() as u64 + (1 << 20) {
            let what =
                "the file uses what stands here so often that its values would outgrow it many times over";
            return Err(Error::malformed(offset, what).into());
        }
        Ok(())
    }
}

/// A dictionary's pairs: the last value of a key wins and its first place stays.
fn last_of_each(items: &[Item]) -> Vec<(Item, Item)> {
    let mut places = HashMap::new();
    let mut pairs: Vec<(Item, Item)> = Vec::with_capacity(items.len() / 2);
    for pair in items.chunks_exact(2) {
        let place = *places.entry(pair[0]).or_insert(pairs.len());
        match pairs.get_mut(place) {
            Some((_, old)) => *old = pair[1],
            None => pairs.push((pair[0], pair[1])),
        }
    }
    pairs
}
