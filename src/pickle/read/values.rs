//! Items become plain values of the model, each container once.
//!
//! Recursion is bounded: the parser refuses containers that nest too deep.

#![forbid(unsafe_code)]

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use super::{
    failure::{Attempt, Failure},
    node::{Item, Kind, Node, NodeId},
    parser::Parser,
};
use crate::{
    error::Error,
    snapshot::{Frame, Shapes, Slot, StackIndex, StackTable, Value, frame_value},
};

/// The values made so far.
#[derive(Debug, Default)]
pub(super) struct Values {
    of_nodes: FxHashMap<NodeId, Value>,
    of_stacks: FxHashMap<StackIndex, Value>,
    /// The number of values that are in the file once and in the snapshot again.
    n_repeated: u64,
}

/// The stacks and shapes that values of stacks are made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables<'t> {
    pub(super) stacks: &'t StackTable,
    pub(super) shapes: &'t Shapes,
}

impl Values {
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
            Item::Int(int) => Value::Int(int),
            Item::Float(bits) => Value::Float(f64::from_bits(bits)),
            Item::Text(id) => Value::Text(parser.words.get(id).text.clone()),
            Item::Bytes(span) => Value::Bytes(bytes_of(span, parser).into()),
            Item::Big(span) => Value::Big(bytes_of(span, parser).into()),
            Item::Pair(at) => {
                let (a, b) = parser.nodes.pair(at);
                Value::Tuple([Value::Int(a), Value::Int(b)].into())
            }
            Item::Node(id) => return self.container(id, parser, tables),
            Item::Stack(stack) => return self.stack(stack, parser, tables),
            Item::Entry(_) | Item::Entries(..) => return Err(Failure::Fallback),
        })
    }

    fn container(&mut self, id: NodeId, parser: &mut Parser<'_>, tables: Tables<'_>) -> Attempt<Value> {
        if let Some(value) = self.of_nodes.get(&id) {
            let value = value.clone();
            let node = parser.nodes.get(id);
            self.repeat(u64::from(node.weight), node.offset, parser)?;
            return Ok(value);
        }
        parser.nodes.freeze(id);
        let Node { kind, items, .. } = parser.nodes.get(id);
        let (kind, items) = (*kind, items.clone());
        let value = if kind == Kind::Dict {
            let pair =
                |(key, item)| Ok((self.value(key, parser, tables)?, self.value(item, parser, tables)?));
            Value::Dict(last_of_each(&items).into_iter().map(pair).collect::<Attempt<_>>()?)
        } else {
            let all =
                items.into_iter().map(|item| self.value(item, parser, tables)).collect::<Attempt<_>>()?;
            if kind == Kind::List { Value::List(all) } else { Value::Tuple(all) }
        };
        self.of_nodes.insert(id, value.clone());
        Ok(value)
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
        let frames = tables.stacks.frames(stack);
        let value = Value::List(frames.map(|frame| frame_value(frame, tables.shapes)).collect());
        self.of_stacks.insert(stack, value.clone());
        Ok(value)
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

fn bytes_of<'a>(span: u32, parser: &Parser<'a>) -> &'a [u8] {
    let (from, to) = parser.nodes.span(span);
    &parser.input.bytes()[from..to]
}

/// Returns a dictionary's pairs: of a repeated key, the last value at the first place.
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
