//! The order word of an event: its ticks, and below them its action.
#![forbid(unsafe_code)]

use super::{chunk::Chunk, lines::Memory};
use crate::ticks::Ticks;

/// Low bits of an event's order word that hold its action; the bits above hold its ticks.
pub const ACTION_BITS: u32 = 4;

/// Returns the ticks of an event with an order word.
#[inline]
#[must_use]
pub fn ticks_of(order_word: u64) -> Ticks {
    Ticks(order_word >> ACTION_BITS)
}

/// Returns the highest order word of an event at these ticks.
#[must_use]
pub fn order_limit(at: Ticks) -> u64 {
    (at.0 << ACTION_BITS) | ((1 << ACTION_BITS) - 1)
}

/// Returns the order word of an event in a chunk.
#[inline]
pub fn order_word<M: Memory>(chunk: &Chunk<M>, index: usize) -> u64 {
    chunk.read(index)[1]
}
