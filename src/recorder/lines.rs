//! The memory of a chunk: on the heap, or in the file of a tape.

use std::{ops::Deref, ptr::NonNull};

use super::clock::Clock;
use crate::tape::{BODY_BYTES, Kind, Owner, Slot, TakenAt, TapeFile};
use memreel_lockfree::events::{self, Line, Memory, on_heap};
use memreel_snapshot::words::DeviceId;

/// A chunk of a recorder's events.
pub(crate) type Chunk = events::Chunk<Lines>;

/// The lines of a chunk. They are behind a pointer wherever they are, so that writing an event does not depend on it.
#[derive(Debug)]
pub(crate) struct Lines {
    at: NonNull<events::Lines>,
    home: Home,
}

/// Who frees the memory.
#[derive(Debug)]
enum Home {
    Heap,
    File(Slot),
}

// SAFETY: `at` belongs to the value alone, and lines are atomics.
unsafe impl Send for Lines {}
// SAFETY: as above.
unsafe impl Sync for Lines {}

impl Default for Lines {
    fn default() -> Lines {
        Lines { at: NonNull::from(Box::leak(on_heap())), home: Home::Heap }
    }
}

impl Memory for Lines {}

impl Lines {
    /// Takes a slot of a file; `None` if it has none left.
    pub(super) fn in_file(
        file: &std::sync::Arc<TapeFile>,
        device: DeviceId,
        clock: &Clock,
        n_dropped: u64,
    ) -> Option<Lines> {
        const { assert!(size_of::<events::Lines>() == BODY_BYTES && align_of::<Line>() <= 128) };
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
    type Target = events::Lines;

    #[inline(always)]
    fn deref(&self) -> &events::Lines {
        // SAFETY: `at` is a box that was leaked, or the body of a slot that `home` keeps: as long and as aligned as
        // lines (asserted in `in_file`), and any bytes are atomics.
        unsafe { self.at.as_ref() }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let Home::Heap = self.home {
            // SAFETY: from the box that `default` leaked, and freed once.
            drop(unsafe { Box::from_raw(self.at.as_ptr()) });
        }
    }
}
