//! Turns containers into frames, stacks and entries, each container once.

#![forbid(unsafe_code)]

use super::{
    failure::Attempt,
    node::{Item, Kind, NodeId, TextId, number},
    parser::Parser,
    values::{Tables, Values},
};
use crate::{
    model::{
        Builder, Frame, FrameIndex, MAX_RECORD_KEYS, Shape, ShapeId, Shapes, StackIndex, StackTable, Text,
        TraceEntry, Value, last_of_each, schema,
    },
    pickle::opcode,
    words::{Error, SeededMap},
};

/// The frames, stacks and shapes of a snapshot while its file is read.
#[derive(Debug, Default)]
pub(super) struct Interner {
    pub(super) stacks: StackTable,
    pub(super) shapes: Shapes,
    frame_of: SeededMap<NodeId, Option<FrameIndex>>,
    stack_of: SeededMap<NodeId, Option<StackIndex>>,
    pub(super) values: Values,
    measured: Measured,
}

/// The frames, stacks and shapes that were measured, and the bytes of memory that they take.
#[derive(Debug, Default)]
struct Measured {
    n_frames: usize,
    n_stacks: usize,
    n_shapes: usize,
    n_bytes: usize,
}

/// What a member of a set takes in addition to itself: its hash, and its slot in the table.
const BYTES_IN_SET: usize = 24;

impl Interner {
    /// Returns the bytes of memory that frames, stacks, shapes and values take.
    pub(super) fn n_bytes(&mut self) -> usize {
        let Interner { stacks, shapes, measured, .. } = self;
        let n_frames = stacks.all_frames().len();
        measured.n_bytes += (n_frames - measured.n_frames) * (size_of::<Frame>() + BYTES_IN_SET);
        for at in measured.n_stacks..stacks.len() {
            let members = stacks.members(StackIndex(number(at)));
            measured.n_bytes += size_of_val(members) + size_of::<Box<[FrameIndex]>>() + BYTES_IN_SET;
        }
        for at in measured.n_shapes..shapes.len() {
            let Shape { slots } = shapes.get(ShapeId(number(at)));
            measured.n_bytes += size_of_val(&**slots) + size_of::<Shape>() + BYTES_IN_SET;
        }
        (measured.n_frames, measured.n_stacks, measured.n_shapes) = (n_frames, stacks.len(), shapes.len());
        measured.n_bytes + self.values.n_bytes()
    }

    /// Returns the stack in a list of frames, if it is one.
    pub(super) fn stack(&mut self, list: NodeId, parser: &mut Parser<'_>) -> Option<StackIndex> {
        if let Some(known) = self.stack_of.get(&list) {
            return *known;
        }
        parser.nodes.freeze(list);
        let stack = self.new_stack(list, parser);
        if !parser.nodes.is_single(list) {
            self.stack_of.insert(list, stack);
        }
        stack
    }

    fn new_stack(&mut self, list: NodeId, parser: &mut Parser<'_>) -> Option<StackIndex> {
        let node = parser.nodes.get(list);
        if node.kind != Kind::List {
            return None;
        }
        let dicts = node.items.clone();
        let frames: Option<Vec<_>> = dicts.iter().map(|dict| self.frame(*dict, parser)).collect();
        let stack = self.stacks.intern_stack(&frames?);
        // A list that is not a stack is a value, which needs them.
        for item in dicts {
            if let Item::Node(dict) = item {
                parser.nodes.release(dict);
            }
        }
        parser.nodes.release(list);
        Some(stack)
    }

    /// Returns the frame in a dictionary, if it is one.
    pub(super) fn frame(&mut self, item: Item, parser: &mut Parser<'_>) -> Option<FrameIndex> {
        let dict = match item {
            Item::Frame(frame) => return Some(frame),
            Item::Node(dict) => dict,
            _ => return None,
        };
        if let Some(known) = self.frame_of.get(&dict) {
            return *known;
        }
        parser.nodes.freeze(dict);
        let frame = self.new_frame(dict, parser);
        if !parser.nodes.is_single(dict) {
            self.frame_of.insert(dict, frame);
        }
        frame
    }

    fn new_frame(&mut self, dict: NodeId, parser: &mut Parser<'_>) -> Option<FrameIndex> {
        if parser.nodes.get(dict).kind != Kind::Dict {
            return None;
        }
        let mut builder = Builder::<Frame>::default();
        for (key, item) in pairs_of(dict, parser).ok()? {
            let name = parser.words.get(key).text.clone();
            builder.set(&name, self.value(item, parser).ok()?);
        }
        Some(self.stacks.intern_frame(builder.finish(&mut self.shapes)))
    }

    /// Replaces a dictionary that the parser has just read, if it is a frame and nothing else refers to it. Returns
    /// whether it did.
    pub(super) fn adopt_frame(&mut self, dict: NodeId, parser: &mut Parser<'_>) -> bool {
        if !is_plain_frame(dict, parser) {
            return false;
        }
        let Some(place) = parser.place_in_memo(dict) else { return false };
        let Some(frame) = self.new_frame(dict, parser) else { return false };
        parser.replace_top(dict, place, Item::Frame(frame));
        true
    }

    /// Replaces a list that the parser has just read, if it has only frames that were replaced, and nothing else refers
    /// to it.
    pub(super) fn adopt_stack(&mut self, list: NodeId, parser: &mut Parser<'_>) {
        let has_frame = matches!(parser.nodes.get(list).items.first(), Some(Item::Frame(_)));
        // A mark may begin the list's next thousand.
        if !has_frame || parser.input.cursor().accept(opcode::MARK) {
            return;
        }
        let frame = |item: &Item| if let Item::Frame(frame) = item { Some(*frame) } else { None };
        let frames: Option<Vec<_>> = parser.nodes.get(list).items.iter().map(frame).collect();
        if let (Some(frames), Some(place)) = (frames, parser.place_in_memo(list)) {
            let stack = self.stacks.intern_stack(&frames);
            parser.replace_top(list, place, Item::Stack(stack));
        }
    }

    /// Returns the entry that a dictionary is.
    pub(super) fn entry(&mut self, id: NodeId, parser: &mut Parser<'_>) -> Attempt<TraceEntry> {
        let mut builder = Builder::<TraceEntry>::default();
        for (key, item) in take_pairs(id, parser)? {
            let name = parser.words.get(key).text.clone();
            match self.stack_field(&name, item, parser) {
                Some(stack) => builder.set_stack(&name, stack),
                None => builder.set(&name, self.value(item, parser)?),
            }
        }
        Ok(builder.finish(&mut self.shapes))
    }

    /// Returns the stack of a record, if this is its key and the value is a list of frames.
    pub(super) fn stack_field(
        &mut self,
        name: &Text,
        item: Item,
        parser: &mut Parser<'_>,
    ) -> Option<StackIndex> {
        if &**name != "frames" {
            return None;
        }
        match item {
            Item::Stack(stack) => Some(stack),
            Item::Node(list) => self.stack(list, parser),
            _ => None,
        }
    }

    /// Returns an item as a value that the model carries without interpreting it.
    pub(super) fn value(&mut self, item: Item, parser: &mut Parser<'_>) -> Attempt<Value> {
        self.values.value(item, parser, Tables { stacks: &self.stacks, shapes: &self.shapes })
    }
}

/// Returns whether a dictionary that is complete has the keys of a frame, and no containers.
fn is_plain_frame(dict: NodeId, parser: &Parser<'_>) -> bool {
    let items = &parser.nodes.get(dict).items;
    let is_key = |item: &Item| match item {
        Item::Text(id) => schema::field_of(schema::FRAME, &parser.words.get(*id).text).is_some(),
        _ => false,
    };
    let is_plain = |item: &Item| matches!(item, Item::Text(_) | Item::Int(_) | Item::None);
    items.len() == 2 * schema::FRAME.len()
        && items.chunks_exact(2).all(|pair| is_key(&pair[0]) && is_plain(&pair[1]))
}

/// Returns the pairs of a record, as [`pairs_of`] does, and frees its items if the record is in one place only.
pub(super) fn take_pairs(id: NodeId, parser: &mut Parser<'_>) -> Attempt<Vec<(TextId, Item)>> {
    let pairs = pairs_of(id, parser)?;
    parser.nodes.release(id);
    Ok(pairs)
}

/// Returns the pairs of a record, whose keys are texts: of a repeated key, the last value at the first place.
pub(super) fn pairs_of(id: NodeId, parser: &Parser<'_>) -> Attempt<Vec<(TextId, Item)>> {
    let node = parser.nodes.get(id);
    let pairs = || node.items.chunks_exact(2);
    if pairs().any(|pair| !matches!(pair[0], Item::Text(_))) {
        return Err(Error::malformed(node.offset.into(), "a record has a key that is not a text").into());
    }
    let pair = |pair: &[Item]| if let Item::Text(key) = pair[0] { Some((key, pair[1])) } else { None };
    last_of_each(pairs().filter_map(pair), MAX_RECORD_KEYS).ok_or_else(|| {
        let what = format!("a record has more than {MAX_RECORD_KEYS} keys");
        Error::malformed(node.offset.into(), what).into()
    })
}
