//! Creates entries that were not recorded, with the keys of recorded ones.

use crate::{
    model::{Field, Shape, ShapeId, Shapes, Slot, StackIndex, TraceEntry},
    words::{Action, Address, SeededMap},
};

/// Keys that describe one event and must not be copied to another.
const OF_ONE_EVENT: &[&str] = &["frames", "forward_frames", "internal_metadata", "category"];

/// Creates entries like given ones.
#[derive(Debug)]
pub(crate) struct EntryTemplate<'a> {
    shapes: &'a mut Shapes,
    bare: SeededMap<(ShapeId, bool), ShapeId>,
}

impl<'a> EntryTemplate<'a> {
    pub(crate) fn new(shapes: &'a mut Shapes) -> EntryTemplate<'a> {
        EntryTemplate { shapes, bare: SeededMap::default() }
    }

    /// Creates an entry with the stream, the scope and the keys of `pattern`. It has a stack if `stack` is given.
    pub(crate) fn entry(
        &mut self,
        pattern: &TraceEntry,
        action: Action,
        address: Address,
        size: u64,
        stack: Option<StackIndex>,
    ) -> TraceEntry {
        let shape = self.shape(pattern.shape, stack.is_some());
        TraceEntry { action: Some(action), address, size, stack, shape, ..*pattern }
    }

    fn shape(&mut self, pattern: ShapeId, has_stack: bool) -> ShapeId {
        if let Some(shape) = self.bare.get(&(pattern, has_stack)) {
            return *shape;
        }
        let mut bare = Shape::default();
        bare.set("action".into(), Slot::Field(Field::Action));
        bare.set("addr".into(), Slot::Field(Field::Addr));
        bare.set("size".into(), Slot::Field(Field::Size));
        for (key, slot) in &self.shapes.get(pattern).slots {
            let is_other = ["action", "addr", "device_free", "size"].contains(&&**key);
            if !is_other && !OF_ONE_EVENT.contains(&&**key) {
                bare.set(key.clone(), slot.clone());
            }
        }
        if has_stack {
            bare.set("frames".into(), Slot::Field(Field::Frames));
        }
        let shape = self.shapes.intern(bare);
        self.bare.insert((pattern, has_stack), shape);
        shape
    }
}
