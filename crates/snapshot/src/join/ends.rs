//! Builds the final segments of a merged device: PyTorch's, minus what the driver took back later, and the driver's
//! others.

use super::lives::Found;
use crate::{
    history::{Joining, final_ranges},
    model::{Block, Segment, Shape, Shapes, StackTable},
    rewrite::count,
    words::{Address, BlockState},
};

/// Builds the final segments, by address.
pub(super) fn segments(
    driver: Vec<Segment>,
    torch: Vec<Segment>,
    found: &Found,
    shapes: &mut Shapes,
) -> Vec<Segment> {
    let mut all = Vec::with_capacity(driver.len() + torch.len());
    for segment in torch {
        let end = segment.address.saturating_add(segment.total_size);
        if found.hidden.overlapping(segment.address, end).is_some() {
            continue;
        }
        let segment = with_stack(segment, found, shapes);
        if found.gone.overlapping(segment.address, end).is_none() {
            all.push(segment);
        } else {
            all.extend(rest(&segment, end, found));
        }
    }
    let of_torch = final_ranges(all.iter().enumerate(), Joining::Apart);
    let is_other = |segment: &Segment| {
        let end = segment.address.saturating_add(segment.total_size);
        // Clocks that differ by more than a call takes leave some in both.
        !found.claimed.contains_key(&segment.address) && of_torch.overlapping(segment.address, end).is_none()
    };
    all.extend(driver.into_iter().filter(is_other));
    all.sort_by_key(|segment| segment.address);
    all
}

/// Gives a segment the stack of the driver's allocation, which names the owner.
fn with_stack(segment: Segment, found: &Found, shapes: &mut Shapes) -> Segment {
    let end = segment.address.saturating_add(segment.total_size);
    let mut inside = found.claimed.range(segment.address..end.max(segment.address));
    let Some(stack) = inside.find_map(|(_, stack)| *stack) else { return segment };
    let is_bare = segment.stack.is_none_or(|stack| stack == StackTable::EMPTY);
    let bare = shapes.intern(Shape::segment(false));
    // PyTorch writes the frames of a segment last, if it has any.
    let shape = match is_bare && segment.shape == bare {
        true => shapes.intern(Shape::segment(true)),
        false => segment.shape,
    };
    Segment { stack: Some(stack), shape, ..segment }
}

/// Returns the remaining parts of a segment that has lost a part.
fn rest(segment: &Segment, end: Address, found: &Found) -> Vec<Segment> {
    let mut all = Vec::new();
    let mut at = segment.address;
    while at < end {
        if let Some((_, gone)) = found.gone.at(at) {
            at = gone.end;
            continue;
        }
        let until = found.gone.first_beginning_in(at, end).map_or(end, |(next, _)| next);
        all.push(piece(segment, at, until));
        at = until;
    }
    all
}

/// Returns the blocks of a segment in a part of it, which they fill together with free blocks.
fn piece(segment: &Segment, start: Address, end: Address) -> Segment {
    let mut blocks = Vec::new();
    let mut at = start;
    let pattern = segment.blocks.first().copied().unwrap_or_default();
    let free = |address: Address, end: Address| Block {
        address,
        size: end - address,
        requested_size: 0,
        stack: Some(StackTable::EMPTY),
        state: Some(BlockState::Inactive),
        ..pattern
    };
    let is_inside = |block: &&Block| {
        block.state.is_some_and(BlockState::is_active)
            && block.address >= start
            && block.address.saturating_add(block.size) <= end
    };
    for block in segment.blocks.iter().filter(is_inside) {
        if block.address > at {
            blocks.push(free(at, block.address));
        }
        at = block.address.saturating_add(block.size);
        blocks.push(*block);
    }
    if at < end {
        blocks.push(free(at, end));
    }
    let mut piece = Segment { address: start, total_size: end - start, blocks, ..segment.clone() };
    count(&mut piece);
    piece
}
