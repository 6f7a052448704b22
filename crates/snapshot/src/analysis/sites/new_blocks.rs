//! Counts what a history allocates from a moment on, in the order of the program's requests.
//!
//! A block counts from its alloc until its free is requested. The moment when the free completes depends on the work
//! that the GPU has queued, and would make the figures of the same program differ from run to run.

use serde::Serialize;

use super::top::{By, Group};
use crate::{
    analysis::DeviceHistory,
    history::{Life, Moment, Times},
};

/// The figures of the blocks that are allocated after a moment. Blocks from before it count neither while they are held
/// nor when they are freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct NewBlocks {
    /// The last event that is not counted; `None` in JSON if all are counted.
    #[serde(rename = "since_event")]
    pub since: Moment,
    /// The number of events after it.
    pub n_events: usize,
    /// The first moment at which the program holds the most bytes of new blocks.
    #[serde(rename = "peak_event")]
    pub peak: Moment,
    /// The requested bytes of the new blocks that it holds then.
    pub peak_bytes: u64,
    /// The number of these blocks.
    #[serde(rename = "peak_blocks")]
    pub n_at_peak: usize,
    /// The requested bytes of the new blocks that it holds at the end of the history.
    pub left_bytes: u64,
    /// The number of these blocks.
    #[serde(rename = "left_blocks")]
    pub n_left: usize,
    /// Whether every event after the moment is in the history: no events are lost, or one from before it is there.
    pub is_complete: bool,
}

/// Bytes and blocks that the program holds.
#[derive(Clone, Copy, Default)]
struct Held {
    // A sum of absurd sizes remains exact.
    bytes: u128,
    n_blocks: usize,
}

impl Held {
    fn bytes(self) -> u64 {
        u64::try_from(self.bytes).unwrap_or(u64::MAX)
    }

    fn change(&mut self, is_alloc: bool, bytes: u64) {
        if is_alloc {
            self.bytes += u128::from(bytes);
            self.n_blocks += 1;
        } else {
            self.bytes -= u128::from(bytes);
            self.n_blocks -= 1;
        }
    }
}

impl DeviceHistory<'_> {
    /// Returns the moment before the first event that is not older than a time, in microseconds since the Unix epoch. Events
    /// without a time have that of a neighbour.
    #[must_use]
    pub fn moment_before(&self, time_us: i64) -> Moment {
        let times = Times::new(self.entries()).rising();
        let n_older = times.all().partition_point(|entry_us| *entry_us < time_us);
        n_older.checked_sub(1).map_or(Moment::START, Moment::after)
    }

    /// Returns the figures of the blocks that are allocated after a moment.
    ///
    /// ```
    /// use memreel::{DeviceId, Reel, analysis::DeviceHistory, history::Moment, recorder::Recording};
    ///
    /// let reel = Reel::builder().history(Recording::all()).build()?;
    /// let kept = reel.alloc(1000)?;
    /// let before = DeviceHistory::new(&reel.snapshot(), DeviceId(0)).end();
    /// drop((reel.alloc(3000)?, kept));
    /// let left = reel.alloc(500)?;
    /// let snapshot = reel.snapshot();
    /// let new = DeviceHistory::new(&snapshot, DeviceId(0)).new_blocks(before);
    /// assert_eq!((new.peak_bytes, new.left_bytes), (3000, 500));
    /// # drop(left);
    /// # Ok::<(), memreel::Error>(())
    /// ```
    #[must_use]
    pub fn new_blocks(&self, since: Moment) -> NewBlocks {
        let (mut held, mut peak, mut at) = (Held::default(), Held::default(), since);
        // The changes of one entry share its moment, frees first.
        for of_entry in self.changes_after(since).chunk_by(|one, next| one.0 == next.0) {
            for (_, is_alloc, bytes) in of_entry {
                held.change(*is_alloc, *bytes);
            }
            if held.bytes > peak.bytes {
                (peak, at) = (held, of_entry[0].0);
            }
        }
        NewBlocks {
            since,
            n_events: self.entries().len().saturating_sub(since.n_entries()),
            peak: at,
            peak_bytes: peak.bytes(),
            n_at_peak: peak.n_blocks,
            left_bytes: held.bytes(),
            n_left: held.n_blocks,
            is_complete: since != Moment::START || !self.trust().has_lost,
        }
    }

    /// Returns the groups of the blocks that are allocated after one moment and that the program holds at another, the
    /// largest first; `None` by owner, because owners have segments and not blocks.
    #[must_use]
    pub fn new_at(&self, since: Moment, moment: Moment, by: By) -> Option<Vec<Group>> {
        self.of_lives(self.new_lives(since).filter(|life| life.is_allocated_at(moment)), by)
    }

    pub(super) fn new_lives(&self, since: Moment) -> impl Iterator<Item = &Life> {
        self.lives().iter().filter(move |life| life.from > since)
    }

    /// Returns when a new block is allocated (true) or its free is requested (false), and its bytes; in order.
    fn changes_after(&self, since: Moment) -> Vec<(Moment, bool, u64)> {
        let mut changes = Vec::new();
        for life in self.new_lives(since) {
            let end = life.requested.min(life.until);
            if end <= life.from {
                continue;
            }
            changes.push((life.from, true, life.represented_bytes));
            if end != Moment::NEVER {
                changes.push((end, false, life.represented_bytes));
            }
        }
        changes.sort_unstable_by_key(|(moment, is_alloc, _)| (*moment, *is_alloc));
        changes
    }
}
