//! Which frames stacks have.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU8, Ordering};

/// The frames that a capture collects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Frames {
    /// Native frames, and those of a source that joins them.
    Native,
    /// Only those of the source.
    Source,
    /// Both.
    All,
}

/// The frames that captures collect now. It may be changed at any time, and each capture follows the value that it
/// reads.
#[derive(Debug)]
pub(super) struct AtomicFrames(AtomicU8);

/// The flag of a source that joins native frames.
const JOINS: u8 = 0b100;

// Relaxed: one byte, and nothing else is read because of it. The source is behind its own pointer (`source.rs`).
impl AtomicFrames {
    #[inline(always)]
    pub(super) fn get(&self) -> Frames {
        match self.0.load(Ordering::Relaxed) & !JOINS {
            0 => Frames::Native,
            1 => Frames::Source,
            _ => Frames::All,
        }
    }

    /// Returns whether captures ask the source at all.
    #[inline(always)]
    pub(super) fn asks_source(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    pub(super) fn set(&self, frames: Frames, joins: bool) {
        let frames = match frames {
            Frames::Native => 0,
            Frames::Source => 1,
            Frames::All => 2,
        };
        self.0.store(frames | if joins { JOINS } else { 0 }, Ordering::Relaxed);
    }
}

impl Default for AtomicFrames {
    fn default() -> AtomicFrames {
        AtomicFrames(AtomicU8::new(JOINS))
    }
}
