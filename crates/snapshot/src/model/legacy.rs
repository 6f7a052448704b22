//! Completes blocks of PyTorch 2.0, and others that lack keys: fields that follow from what their file has.
//!
//! PyTorch 2.0 wrote neither `address`, `requested_size` nor `frames` of a block. It wrote `history`,
//! a list of uses with `real_size` and `frames`, the latest first (`docs/snapshot-format.md` 1.3).
//! The fields of the record are filled from it, so that every reader of blocks finds them. The shape
//! keeps the keys of the file, so that the file is written back as it was.

use super::{
    Snapshot,
    build::stack,
    field::Field,
    shape::{Shape, ShapeId, Shapes},
    stack_table::{StackIndex, StackTable},
    value::Value,
};
use crate::words::SeededMap;

/// One use in a block's `history`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockUse<'a> {
    /// The requested bytes; 0 if they cannot be read.
    pub(crate) requested_bytes: u64,
    /// The value of `frames`.
    pub(crate) frames: Option<&'a Value>,
}

/// The uses that a block's `history` lists, the latest first; `None` without such a list.
pub(crate) fn block_uses(shape: &Shape) -> Option<impl ExactSizeIterator<Item = BlockUse<'_>>> {
    let uses = shape.value("history")?.as_elements()?;
    Some(uses.iter().map(|used| {
        BlockUse {
            requested_bytes: used
                .get("real_size")
                .and_then(Value::as_int)
                .and_then(|bytes| u64::try_from(bytes).ok())
                .unwrap_or(0),
            frames: used.get("frames"),
        }
    }))
}

impl Snapshot {
    /// Fills the fields of blocks whose keys the file lacks: the address, the requested size and the
    /// stack.
    pub(crate) fn complete_blocks(&mut self) {
        let is_complete: Vec<bool> = self.shapes.iter().map(|(_, shape)| is_complete(shape)).collect();
        let Snapshot { segments, host_segments, shapes, stacks, .. } = self;
        let mut uses: SeededMap<ShapeId, Option<LatestUse>> = SeededMap::default();
        for segment in segments.iter_mut().chain(host_segments) {
            let mut next = segment.address;
            for block in &mut segment.blocks {
                if !is_complete[block.shape.index()] {
                    let latest =
                        uses.entry(block.shape).or_insert_with(|| latest_use(block.shape, shapes, stacks));
                    let shape = shapes.get(block.shape);
                    if !shape.has(Field::Address) {
                        block.address = next;
                    }
                    if let Some(latest) = latest {
                        (block.requested_size, block.stack) = (latest.requested_bytes, latest.stack);
                    } else if !shape.has(Field::RequestedSize) {
                        block.requested_size = block.size;
                    }
                }
                next = next.saturating_add(block.size);
            }
        }
    }
}

/// Returns whether a block's requested size is from its file, rather than the block's size in its place.
pub(crate) fn has_requested_size(shape: &Shape) -> bool {
    shape.has(Field::RequestedSize) || block_uses(shape).is_some_and(|uses| uses.len() > 0)
}

fn is_complete(shape: &Shape) -> bool {
    [Field::Address, Field::RequestedSize, Field::Frames].into_iter().all(|field| shape.has(field))
}

/// The latest use of the blocks of a shape.
#[derive(Clone, Copy, Debug)]
struct LatestUse {
    requested_bytes: u64,
    stack: Option<StackIndex>,
}

/// The latest use that a `history` lists; `None` without one, or where the block has `frames`.
fn latest_use(shape: ShapeId, shapes: &mut Shapes, stacks: &mut StackTable) -> Option<LatestUse> {
    let of_block = shapes.get(shape);
    if of_block.has(Field::Frames) {
        return None;
    }
    let latest = block_uses(of_block)?.next();
    let requested_bytes = latest.map_or(0, |latest| latest.requested_bytes);
    let frames = latest.and_then(|latest| latest.frames).cloned();
    Some(LatestUse { requested_bytes, stack: frames.and_then(|frames| stack(&frames, stacks, shapes)) })
}
