//! The lines of a chunk: places of events, in pairs of cache lines.
#![forbid(unsafe_code)]

use std::{fmt::Debug, ops::Deref};

use crate::sync::AtomicU64;

/// The words of an event.
pub const N_WORDS: usize = 4;
/// The events of a line.
pub const N_IN_LINE: usize = 4;
/// A chunk has 32 KiB: small enough that a thread with few events wastes little memory, large enough that
/// the tape's lists of chunks are locked only once in about a thousand events.
pub const N_LINES: usize = if cfg!(memreel_loom) { 1 } else { 256 };

/// An event in a chunk. The second word is its order word.
pub type Words = [u64; N_WORDS];

/// The place of an event.
pub type Place = [AtomicU64; N_WORDS];

/// Four events in two cache lines, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Line(pub [Place; N_IN_LINE]);

/// The lines of a chunk.
pub type Lines = [Line; N_LINES];

/// The memory of a chunk's lines, which is behind a pointer wherever it is. It is on the heap by default.
pub trait Memory: Deref<Target = Lines> + Default + Debug {}

/// Returns lines on the heap, built there, because the calling thread's stack may have no room for a chunk.
#[must_use]
pub fn on_heap() -> Box<Lines> {
    let lines: Box<[Line]> = std::iter::repeat_with(Line::default).take(N_LINES).collect();
    let Ok(lines) = <Box<Lines>>::try_from(lines) else { unreachable!("as many as were taken") };
    lines
}
