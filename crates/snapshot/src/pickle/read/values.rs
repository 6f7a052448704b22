//! Turns items into plain values of the model, each container once.
//!
//! Recursion is bounded: the parser refuses containers that nest too deep.

#![forbid(unsafe_code)]

use super::{
    failure::{Attempt, Failure},
    node::{Item, Kind, Node, NodeId},
    parser::Parser,
};
use crate::{
    model::{Frame, FrameIndex, Shapes, Slot, StackIndex, StackTable, Value, frame_value, last_of_each},
    words::{Error, SeededMap},
};

/// The values made so far.
#[derive(Debug, Default)]
pub(super) struct Values {
    of_nodes: SeededMap<NodeId, Value>,
    of_stacks: SeededMap<StackIndex, Value>,
    of_frames: SeededMap<FrameIndex, Value>,
    /// The number of values that are in the file once and in the snapshot again.
    n_repeated: u64,
    /// The bytes of memory that the values of containers take.
    n_bytes: usize,
}

/// A file can use a long text for two bytes, but each use is hashed as a whole: from this length on, uses count.
const LONG_TEXT: usize = 1024;

/// The bytes of a long text that count as one value.
const BYTES_OF_A_VALUE: u64 = 8;

/// The values in a frame of three keys, itself included.
const VALUES_OF_FRAME: u64 = 7;

/// The stacks and shapes that values of stacks are made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables<'t> {
    pub(super) stacks: &'t StackTable,
    pub(super) shapes: &'t Shapes,
}

impl Values {
    /// Returns the bytes of memory that the values of containers take.
    pub(super) fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Returns an item as a value that the model carries without interpreting it.
    pub(super) fn value(
        &mut self,
        item: Item,
        parser: &mut Parser<'_>,
        tables: Tables<'_>,
    ) -> Attempt<Value> {
        Ok(match item {
            Item::None | Item::Absent => Value::None,
            Item::Bool(bool) => Value::Bool(bool),
            Item::Int(int) => Value::Int(int.into()),
            Item::Long(_) => parser.nodes.int(item).map_or(Value::None, Value::Int),
            Item::Float(at) => Value::Float(parser.nodes.float(at)),
            Item::Text(id) => {
                let text = parser.words.get(id).text.clone();
                if let Some(n_bytes @ 1..) = text.len().checked_sub(LONG_TEXT) {
                    self.repeat(n_bytes as u64 / BYTES_OF_A_VALUE, parser.input.pos() as u64, parser)?;
                }
                Value::Text(text)
            }
            Item::Bytes(span) => Value::Bytes(bytes_of(span, parser).into()),
            Item::Big(span) => Value::Big(bytes_of(span, parser).into()),
            Item::Pair(at) => {
                let (a, b) = parser.nodes.pair(at);
                Value::Tuple([Value::Int(a), Value::Int(b)].into())
            }
            Item::Node(id) => return self.container(id, parser, tables),
            Item::Frame(frame) => return self.frame(frame, parser, tables),
            Item::Stack(stack) => return self.stack(stack, parser, tables),
            Item::Entry(_) | Item::Entries(..) => return Err(Failure::Fallback),
        })
    }

    fn container(&mut self, id: NodeId, parser: &mut Parser<'_>, tables: Tables<'_>) -> Attempt<Value> {
        if let Some(value) = self.of_nodes.get(&id) {
            let value = value.clone();
            let node = parser.nodes.get(id);
            self.repeat(u64::from(node.weight), node.offset.into(), parser)?;
            return Ok(value);
        }
        parser.nodes.freeze(id);
        let Node { kind, items, .. } = parser.nodes.get(id);
        let (kind, n_items) = (*kind, items.len());
        self.count(n_items, parser)?;
        let value = if kind == Kind::Dict {
            let pairs = items_of(id, parser).chunks_exact(2);
            let pairs = pairs.map(|pair| (parser.nodes.identity(pair[0]), (pair[0], pair[1])));
            let pairs = last_of_each(pairs, usize::MAX).unwrap_or_default();
            let pair =
                |(_, (key, item))| Ok((self.value(key, parser, tables)?, self.value(item, parser, tables)?));
            Value::Dict(pairs.into_iter().map(pair).collect::<Attempt<_>>()?)
        } else {
            // Values are created while the items remain in place.
            let value = |at: usize| self.value(items_of(id, parser)[at], parser, tables);
            let all = (0..n_items).map(value).collect::<Attempt<_>>()?;
            if kind == Kind::List { Value::List(all) } else { Value::Tuple(all) }
        };
        match parser.nodes.is_single(id) {
            true => parser.nodes.release(id),
            false => drop(self.of_nodes.insert(id, value.clone())),
        }
        Ok(value)
    }

    /// Returns the dictionary that a frame without containers was in the file.
    fn frame(&mut self, frame: FrameIndex, parser: &Parser<'_>, tables: Tables<'_>) -> Attempt<Value> {
        match self.of_frames.get(&frame) {
            Some(value) => {
                let value = value.clone();
                self.repeat(VALUES_OF_FRAME, parser.input.pos() as u64, parser)?;
                Ok(value)
            }
            None => {
                self.count(VALUES_OF_FRAME as usize, parser)?;
                let value = frame_value(tables.stacks.frame(frame), tables.shapes);
                self.of_frames.insert(frame, value.clone());
                Ok(value)
            }
        }
    }

    /// Returns the list that a stack was in the file, where the format has no stack, such as in the `history` of
    /// PyTorch 2.0.
    fn stack(&mut self, stack: StackIndex, parser: &Parser<'_>, tables: Tables<'_>) -> Attempt<Value> {
        if let Some(value) = self.of_stacks.get(&stack) {
            let value = value.clone();
            let n_values = 1 + 8 * tables.stacks.members(stack).len() as u64;
            self.repeat(n_values, parser.input.pos() as u64, parser)?;
            return Ok(value);
        }
        // The parser bounds the depth of containers, but it counts a stack as flat. One whose frames contain
        // containers is left to the slow path, which sees them all; otherwise stacks in frames could nest without end.
        let is_flat = |frame: &Frame| {
            let slots = &tables.shapes.get(frame.shape).slots;
            slots.iter().all(|(_, slot)| !matches!(slot, Slot::Value(value) if value.is_container()))
        };
        if !tables.stacks.frames(stack).all(is_flat) {
            return Err(Failure::Fallback);
        }
        let members = tables.stacks.members(stack);
        self.count(members.len(), parser)?;
        let value = |frame: &FrameIndex| {
            let of_frame = || frame_value(tables.stacks.frame(*frame), tables.shapes);
            self.of_frames.entry(*frame).or_insert_with(of_frame).clone()
        };
        let value = Value::List(members.iter().map(value).collect());
        self.of_stacks.insert(stack, value.clone());
        Ok(value)
    }

    /// Counts the memory of a container's value.
    fn count(&mut self, n_items: usize, parser: &Parser<'_>) -> Attempt<()> {
        // Itself in the map of containers, the counts of its references, and its items.
        self.n_bytes += 2 * size_of::<(NodeId, Value)>() + 16 + n_items * size_of::<Value>();
        parser.check_memory(self.n_bytes, parser.input.pos())?;
        Ok(())
    }

    /// Counts values that are in the file once and in the snapshot again.
    ///
    /// # Errors
    /// Beyond a bound: sharing lets a file of a kilobyte hold more values than there is memory.
    pub(super) fn repeat(&mut self, n_values: u64, offset: u64, parser: &Parser<'_>) -> Attempt<()> {
        self.n_repeated = self.n_repeated.saturating_add(n_values);
        if self.n_repeated > 16 * parser.input.bytes().len() as u64 + (1 << 20) {
            let what =
                "the file uses the value here so often that its values would outgrow it many times over";
            return Err(Error::malformed(offset, what).into());
        }
        Ok(())
    }
}

fn items_of<'p>(id: NodeId, parser: &'p Parser<'_>) -> &'p [Item] {
    &parser.nodes.get(id).items
}

fn bytes_of<'a>(span: u32, parser: &Parser<'a>) -> &'a [u8] {
    let (from, to) = parser.nodes.span(span);
    &parser.input.bytes()[from..to]
}
