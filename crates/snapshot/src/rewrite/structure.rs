//! Repairs what a viewer needs to draw anything: lists, traces for all devices, segments filled by blocks.

use super::change::Changes;
use crate::{
    model::{
        Block, Field, Segment, Shape, ShapeId, Shapes, Slot, Snapshot, StackIndex, StackTable, TopLevel,
        Value,
    },
    words::BlockState,
};

/// Segments of devices with this number or a higher one are dropped: every device gets a trace.
const MAX_DEVICES: i64 = 1 << 16;

/// Repairs the top level and the segments.
pub(super) fn fix(snapshot: &mut Snapshot, changes: &mut Changes) {
    let fields = [("segments", Field::Segments), ("device_traces", Field::DeviceTraces)];
    if snapshot.top_level == TopLevel::SegmentList {
        snapshot.top_level = TopLevel::Dictionary;
        fields.iter().for_each(|(key, field)| snapshot.shape.set((*key).into(), Slot::Field(*field)));
        changes.add("", "turned a bare list of segments into a snapshot", 1);
    }
    for (key, field) in fields {
        if !snapshot.shape.has(field) {
            snapshot.shape.set(key.into(), Slot::Field(field));
            changes.add(key, "added the missing list", 1);
        }
    }
    fix_negative_addresses(snapshot, changes);
    let n_segments = snapshot.segments.len();
    snapshot.segments.retain(|segment| (0..MAX_DEVICES).contains(&segment.device.0));
    changes.add("segments", "dropped segments without a device", n_segments - snapshot.segments.len());
    let devices = snapshot.segments.iter().filter_map(|segment| segment.device.index());
    let n_devices = devices.max().map_or(1, |device| device + 1);
    let n_traces = snapshot.device_traces.len();
    if n_traces < n_devices {
        snapshot.device_traces.resize_with(n_devices, Vec::new);
        changes.add("device_traces", "added empty traces for devices that had none", n_devices - n_traces);
    }
    fix_blocks(snapshot, changes);
}

/// Writes addresses of 2^63 and more as they are. PyTorch's C++ writer makes them negative (`docs/snapshot-format.md`
/// 1); the record's field already has their bits.
fn fix_negative_addresses(snapshot: &mut Snapshot, changes: &mut Changes) {
    let unsigned: Vec<Option<ShapeId>> =
        (0..snapshot.shapes.len()).map(|at| with_unsigned_address(&mut snapshot.shapes, at)).collect();
    let mut n = 0;
    let mut fix = |shape: &mut ShapeId| {
        if let Some(fixed) = unsigned[shape.index()] {
            *shape = fixed;
            n += 1;
        }
    };
    for segment in &mut snapshot.segments {
        fix(&mut segment.shape);
        segment.blocks.iter_mut().for_each(|block| fix(&mut block.shape));
    }
    snapshot.device_traces.iter_mut().flatten().for_each(|entry| fix(&mut entry.shape));
    changes.add("addresses", "rewrote negative addresses as unsigned", n);
}

fn with_unsigned_address(shapes: &mut Shapes, at: usize) -> Option<ShapeId> {
    let shape = shapes.get(ShapeId(u32::try_from(at).ok()?));
    let keys = [("address", Field::Address), ("addr", Field::Addr)];
    let is_negative = |key: &str| matches!(shape.slot(key), Some(Slot::Value(Value::Int(..0))));
    let (key, field) = keys.into_iter().find(|(key, _)| is_negative(key))?;
    let mut fixed = shape.clone();
    fixed.set(key.into(), Slot::Field(field));
    Some(shapes.intern(fixed))
}

fn fix_blocks(snapshot: &mut Snapshot, changes: &mut Changes) {
    let mut shapes = Vec::new();
    let mut filler = None;
    for segment in &mut snapshot.segments {
        shapes.clear();
        let shape = snapshot.shapes.get(segment.shape);
        let mut missing = Shape::default();
        if !shape.has(Field::Blocks) {
            shapes.push(("blocks", Field::Blocks));
        }
        if !shape.has(Field::Stream) {
            shapes.push(("stream", Field::Stream));
        }
        if !shape.has(Field::TotalSize) {
            shapes.push(("total_size", Field::TotalSize));
        }
        if !shapes.is_empty() {
            missing.slots.clone_from(&shape.slots);
            shapes.iter().for_each(|(key, field)| missing.set((*key).into(), Slot::Field(*field)));
            segment.shape = snapshot.shapes.intern(missing);
            changes.add("segments", "added missing keys that the viewer needs", shapes.len());
        }
        if let Some(shape) = without_odd_frames(&mut segment.stack, segment.shape, &mut snapshot.shapes) {
            segment.shape = shape;
            changes.add("segments", ODD_FRAMES, 1);
        }
        fix_states(segment, &mut snapshot.shapes, changes);
        let filled = segment.blocks.iter().fold(0u64, |sum, block| sum.saturating_add(block.size));
        if filled > segment.total_size {
            segment.total_size = filled;
            changes.add("segments", "set the size of a segment to that of its blocks", 1);
        } else if filled < segment.total_size {
            let shape = *filler.get_or_insert_with(|| snapshot.shapes.intern(Shape::block()));
            segment.blocks.push(Block {
                address: segment.address.saturating_add(filled),
                size: segment.total_size - filled,
                requested_size: 0,
                stack: Some(StackTable::EMPTY),
                shape,
                state: Some(BlockState::Inactive),
            });
            changes.add("segments", "filled the rest of a segment with a free block", 1);
        }
    }
}

const ODD_FRAMES: &str = "removed `frames` that are not a list of frames";

/// Returns another shape for a record whose `frames` are not a list of frames, and gives it an empty stack.
fn without_odd_frames(
    stack: &mut Option<StackIndex>,
    shape: ShapeId,
    shapes: &mut Shapes,
) -> Option<ShapeId> {
    let mut clean = match shapes.get(shape) {
        shape if matches!(shape.slot("frames"), Some(Slot::Value(_))) => shape.clone(),
        _ => return None,
    };
    clean.set("frames".into(), Slot::Field(Field::Frames));
    *stack = Some(StackTable::EMPTY);
    Some(shapes.intern(clean))
}

/// Names states as PyTorch's dumps do; its documentation has other names (`docs/snapshot-format.md` 1.9).
/// The viewer ignores blocks of unknown states.
fn fix_states(segment: &mut Segment, shapes: &mut Shapes, changes: &mut Changes) {
    let n_before = segment.blocks.len();
    segment.blocks.retain(|block| block.size > 0);
    changes.add("segments", "dropped blocks without a size", n_before - segment.blocks.len());
    for block in &mut segment.blocks {
        if let Some(shape) = without_odd_frames(&mut block.stack, block.shape, shapes) {
            block.shape = shape;
            changes.add("segments", ODD_FRAMES, 1);
        }
        let shape = shapes.get(block.shape);
        let mut fixed = None;
        if block.state.is_none() {
            let is_pending = shape.text("state").is_some_and(|state| state.starts_with("active_"));
            block.state = Some(if is_pending { BlockState::ActivePendingFree } else { BlockState::Inactive });
            fixed.get_or_insert_with(|| shape.clone()).set("state".into(), Slot::Field(Field::State));
            changes.add("segments", "changed the unknown state of a block to one of PyTorch's", 1);
        }
        if shape.has(Field::Frames) && !shape.has(Field::RequestedSize) {
            block.requested_size = block.size;
            let fixed = fixed.get_or_insert_with(|| shape.clone());
            fixed.set("requested_size".into(), Slot::Field(Field::RequestedSize));
            changes.add("segments", "added the missing `requested_size` of a block with `frames`", 1);
        }
        if let Some(fixed) = fixed {
            block.shape = shapes.intern(fixed);
        }
        if block.state.is_some_and(BlockState::is_active) && block.requested_size > block.size {
            block.requested_size = block.size;
            changes.add("segments", "reduced the requested size of a block to the size of the block", 1);
        }
    }
}
