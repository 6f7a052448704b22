//! The memory of a chunk: on the heap, or in the file of a tape.

use std::{ops::Deref, ptr::NonNull};

#[cfg(not(loom))]
use super::clock::Clock;
use crate::process::sync::AtomicU64;
#[cfg(not(loom))]
use crate::tape::{BODY_BYTES, Kind, Owner, Slot, TakenAt, TapeFile};
#[cfg(not(loom))]
use memreel_snapshot::words::DeviceId;

/// The words of an event.
pub(crate) const N_WORDS: usize = 4;
/// The events of a line.
pub(super) const N_IN_LINE: usize = 4;
/// A chunk has 32 KiB: small enough that a thread with few events wastes little memory, large enough that
/// the tape's lists of chunks are locked only once in about a thousand events.
pub(super) const N_LINES: usize = if cfg!(loom) { 1 } else { 256 };

/// The place of an event.
pub(super) type Place = [AtomicU64; N_WORDS];

/// Four events in two cache lines, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Line(pub(super) [Place; N_IN_LINE]);

/// The lines of a chunk. They are behind a pointer wherever they are, so that writing an event does not depend on it.
#[derive(Debug)]
pub(super) struct Lines {
    at: NonNull<[Line; N_LINES]>,
    home: Home,
}

/// Who frees the memory.
#[derive(Debug)]
enum Home {
    Heap,
    #[cfg(not(loom))]
    File(Slot),
}

// SAFETY: `at` belongs to the value alone, and lines are atomics.
unsafe impl Send for Lines {}
// SAFETY: as above.
unsafe impl Sync for Lines {}

impl Default for Lines {
    fn default() -> Lines {
        // Built on the heap, because the calling thread's stack may have no room for a chunk.
        let lines: Box<[Line]> = std::iter::repeat_with(Line::default).take(N_LINES).collect();
        let Ok(lines) = <Box<[Line; N_LINES]>>::try_from(lines) else {
            unreachable!("as many as were taken")
        };
        Lines { at: NonNull::from(Box::leak(lines)), home: Home::Heap }
    }
}

#[cfg(not(loom))]
impl Lines {
    /// Takes a slot of a file; `None` if it has none left.
    pub(super) fn in_file(
        file: &std::sync::Arc<TapeFile>,
        device: DeviceId,
        clock: &Clock,
        n_dropped: u64,
    ) -> Option<Lines> {
        const { assert!(size_of::<[Line; N_LINES]>() == BODY_BYTES && align_of::<Line>() <= 128) };
        let slot = file.slot()?;
        let lines = Lines { at: slot.body().cast(), home: Home::File(slot) };
        let Home::File(slot) = &lines.home else { unreachable!("as it was made") };
        if !slot.is_fresh() {
            // A reader of the file counts events by their order words. Relaxed: the fence of `Slot::take` is before them, and the
            // release of the slot's kind behind them.
            let places = lines.iter().flat_map(|line| &line.0);
            places.for_each(|place| place[1].store(0, std::sync::atomic::Ordering::Relaxed));
        }
        let (ticks, elapsed_ns) = clock.pair();
        slot.begin(Kind::Events, Owner::Device(device), TakenAt { ticks, elapsed_ns }, n_dropped);
        Some(lines)
    }

    /// Returns whether a crash of the process leaves them.
    pub(super) fn is_in_file(&self) -> bool {
        matches!(self.home, Home::File(_))
    }

    /// Says in the file that later events of the device are elsewhere.
    pub(super) fn end_at(&self, until: u64) {
        if let Home::File(slot) = &self.home {
            slot.end_at(until);
        }
    }

    /// Writes the checksum of full lines into their file.
    pub(super) fn seal(&self) {
        if let Home::File(slot) = &self.home {
            slot.seal(BODY_BYTES);
        }
    }
}

impl Deref for Lines {
    type Target = [Line; N_LINES];

    #[inline(always)]
    fn deref(&self) -> &[Line; N_LINES] {
        // SAFETY: `at` is a box that was leaked, or the body of a slot that `home` keeps: as long and as aligned as
        // lines (asserted in `in_file`), and any bytes are atomics.
        unsafe { self.at.as_ref() }
    }
}

impl Drop for Lines {
    #[cfg_attr(
        loom,
        allow(irrefutable_let_patterns, reason = "loom has no files, so all memory is on the heap")
    )]
    fn drop(&mut self) {
        if let Home::Heap = self.home {
            // SAFETY: from the box that `default` leaked, and freed once.
            drop(unsafe { Box::from_raw(self.at.as_ptr()) });
        }
    }
}
