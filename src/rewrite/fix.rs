//! Repairs a snapshot on which readers throw.

use super::{
    category,
    change::{Change, Changes},
    entries,
    entry_template::EntryTemplate,
    lifecycle, order, rewind, structure,
    trace_end::TraceEnd,
};
use crate::{
    event::DeviceId,
    history::{Places, disorder},
    snapshot::{Field, Recorded, Snapshot},
};

/// The backward walk may find what the forward walk cannot, and the other way round. A sound trace takes
/// one round, a broken one two; only random entries take more.
const MAX_ROUNDS: usize = 8;

/// A repaired snapshot with the list of changes.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fixed {
    /// The repaired snapshot.
    pub snapshot: Snapshot,
    /// The changes; empty if there was nothing to repair.
    pub changes: Vec<Change>,
}

/// Repairs what makes PyTorch's viewer throw or draw nothing (`docs/snapshot-format.md` 3.5).
///
/// Adds missing lists and traces and the category `"unknown"`, sorts the entries of a ring that was
/// resized, and adds missing events, such as those that `skip_actions` leaves out. The segments are
/// believed: missing events are added to the trace at the latest possible place, and events that
/// contradict the segments are dropped. The settings get their number (`memreel_fixed_events`), because
/// figures over time are estimates then. A sound snapshot is returned unchanged.
///
/// The category is for viewers before June 2026 alone, as is writing protocol 5 again as 4; all viewers need the
/// other repairs.
///
/// Defects of a file's bytes (the protocol, batches that are too long, records that are used twice,
/// repeated stacks) do not need this function; writing the snapshot again removes them.
///
/// ```
/// use memreel::{rewrite::fix, snapshot::Snapshot};
/// let bare: Snapshot = serde_json::from_str("[]")?;
/// let fixed = fix(bare);
/// assert_eq!(fixed.changes[0].to_string(), "made a snapshot of a bare list of segments");
/// assert_eq!(fixed.snapshot.device_traces.len(), 1);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use]
pub fn fix(mut snapshot: Snapshot) -> Fixed {
    let mut changes = Changes::default();
    structure::fix(&mut snapshot, &mut changes);
    category::fix(&mut snapshot, &mut changes);
    let mut recorded = Vec::new();
    for device in DeviceId::first(snapshot.device_traces.len()) {
        let n_fixed = fix_trace(&mut snapshot, device, &mut changes);
        let before = Recorded::of_device(&snapshot, device);
        recorded
            .push((device, Recorded { n_fixed: before.n_fixed.saturating_add(n_fixed as u64), ..before }));
    }
    Recorded::store(&mut snapshot, &recorded);
    Fixed { snapshot, changes: changes.into_list() }
}

/// Returns how many entries it added, changed or dropped; moving an entry does not count.
fn fix_trace(snapshot: &mut Snapshot, device: DeviceId, changes: &mut Changes) -> usize {
    let place = format!("device_traces[{device}]");
    let Some(trace) = device.index().and_then(|device| snapshot.device_traces.get_mut(device)) else {
        return 0;
    };
    let (n_before, mut n_moved) = (changes.n_at(&place), 0);
    entries::fix(trace, &mut snapshot.shapes, &place, changes);
    let of_device = snapshot.segments.iter().enumerate();
    let end = TraceEnd::new(of_device.filter(|(_, segment)| segment.device == device), &snapshot.shapes);
    let has_times = || trace.iter().all(|entry| snapshot.shapes.get(entry.shape).has(Field::TimeUs));
    let may_be_shuffled = disorder(trace, true).is_some() && has_times();
    let mut template = EntryTemplate::new(&mut snapshot.shapes);
    // Every edit is at an address of the trace or of the segments.
    let addresses = trace.iter().map(|entry| entry.address);
    let places = Places::new(addresses.chain(end.state.blocks().iter().map(|block| block.block.address)));
    for _ in 0..MAX_ROUNDS {
        // Entries that contradict each other in both orders may agree in one once others are added.
        let n_unsorted = changes.n_at(&place);
        let is_sorted = may_be_shuffled && order::fix(trace, &end, &place, changes);
        n_moved += changes.n_at(&place) - n_unsorted;
        let is_completed =
            lifecycle::complete(trace, &places, &end, &mut template).apply(trace, &place, changes);
        let is_rewound = rewind::check(trace, &places, &end, &mut template).apply(trace, &place, changes);
        if !is_sorted && !is_completed && !is_rewound {
            break;
        }
    }
    changes.n_at(&place) - n_before - n_moved
}
