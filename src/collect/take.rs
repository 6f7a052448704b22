//! What a snapshot takes of a device: its segments and its events, read under the lock of its inventory.

use std::collections::BTreeMap;

use memreel_snapshot::model::RecordedSettings;

use super::page_runs;
use crate::recorder::{Cut, Facts, Log, Source};
use memreel_snapshot::words::{DeviceId, Inventory, InventorySegment, RunSums};

/// Devices from this number on are left out, as negative ones are: a snapshot has a trace for each
/// device up to the last.
const MAX_DEVICES: usize = 1 << 16;

/// What one device had at the moment it was looked at.
pub(super) struct Take {
    pub(super) device: usize,
    pub(super) segments: Vec<InventorySegment>,
    pub(super) log: Log,
    /// What was allocated with each stack, of memory without segments.
    pub(super) allocated: Option<RunSums>,
    /// The mean sampling interval in bytes, if the inventory has one of its own.
    sample_bytes: Option<u64>,
    /// Whether only sampled blocks are in the segments.
    is_sample: bool,
    /// Without events: the event of this snapshot.
    with_snapshot: Option<Cut>,
}

/// Whether a `snapshot` event is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Taking {
    RecordedSettings,
    Quiet,
}

impl Take {
    /// Looks at a device; `None` if it has no trace in a snapshot.
    pub(super) fn new(
        source: &dyn Source,
        inventory: &(impl Inventory + ?Sized),
        taking: Taking,
    ) -> Option<Take> {
        let device = inventory.device().index().filter(|device| *device < MAX_DEVICES)?;
        let events = source.events(inventory.device());
        let mut seen: Option<Cut> = None;
        let mut with_snapshot = None;
        let segments = inventory.segments_at(&mut |active_bytes| {
            let cut = events.cut();
            let is_empty = cut.is_empty();
            seen = Some(cut);
            if taking == Taking::Quiet {
                return;
            }
            events.record_snapshot(active_bytes);
            with_snapshot = is_empty.then(|| events.cut());
        });
        let cut = seen.unwrap_or_else(|| events.cut());
        // Outside the inventory's lock: a cut is a list of chunks, a log a million events.
        let mut log = Log::of(cut);
        let segments = match inventory.has_segments() {
            true => segments,
            false => page_runs::segments(segments, &mut log),
        };
        let (sample_bytes, is_sample) = (inventory.sample_bytes(), !inventory.has_segments());
        let allocated = inventory.allocated().filter(|_| is_sample);
        Some(Take { device, segments, log, allocated, sample_bytes, is_sample, with_snapshot })
    }
}

/// Gives the first device the event of this snapshot, if no device has a segment or an event: viewers do not
/// open a file without either (`docs/snapshot-format.md` 3.5).
pub(super) fn open_empty(takes: &mut [Take]) {
    let is_empty = |take: &Take| take.segments.is_empty() && take.log.len() == 0;
    if takes.iter().all(is_empty)
        && let Some(first) = takes.first_mut()
        && let Some(cut) = first.with_snapshot.take()
    {
        first.log = Log::of(cut);
    }
}

/// The facts about the recording of each device, by its number.
pub(super) fn recorded(facts: &Facts, takes: &[Take]) -> Vec<(DeviceId, RecordedSettings)> {
    let history = &facts.options;
    // Inventories may share a device.
    let mut devices: BTreeMap<usize, (u64, u64, bool)> = BTreeMap::new();
    for take in takes {
        let sample_bytes = take.sample_bytes.unwrap_or(history.sample_bytes());
        let (n_lost, most_bytes, is_sample) = devices.entry(take.device).or_insert((0, 0, true));
        *n_lost += take.log.n_lost();
        *most_bytes = sample_bytes.max(*most_bytes);
        *is_sample &= take.is_sample;
    }
    let n_stacks_refused = facts.n_stacks_refused;
    let facts = |(device, (n_lost, sample_bytes, is_sample)): (usize, (u64, u64, bool))| {
        let recorded = RecordedSettings {
            has_lost: n_lost > 0,
            n_lost,
            min_size_bytes: history.min_size_bytes(),
            sample_bytes,
            n_fixed: 0,
            n_cut: 0,
            n_stacks_refused,
            weight_bytes: if is_sample { sample_bytes } else { 0 },
            frees_as_allocated: is_sample && history.heap_frees_as_allocated(),
        };
        (device.into(), recorded)
    };
    devices.into_iter().map(facts).collect()
}
