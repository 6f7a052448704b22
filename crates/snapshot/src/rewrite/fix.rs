//! Repairs a snapshot on which readers throw.

use std::collections::BTreeMap;

use super::{
    category,
    change::{Change, Changes},
    entries,
    settle::settle,
    structure,
    trace_end::TraceEnd,
};
use crate::{
    model::{RecordedDevices, RecordedSettings, Segment, Shapes, Snapshot, TraceEntry},
    words::DeviceId,
};

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
/// The category is only for viewers before June 2026, as is rewriting protocol 5 as 4; all viewers need the other
/// repairs.
///
/// Defects of a file's bytes (the protocol, batches that are too long, records that are used twice,
/// repeated stacks) do not need this function; writing the snapshot again removes them.
///
/// ```
/// use memreel::{rewrite::fix, snapshot::Snapshot};
/// let bare: Snapshot = serde_json::from_str("[]")?;
/// let fixed = fix(bare);
/// assert_eq!(fixed.changes[0].to_string(), "turned a bare list of segments into a snapshot");
/// assert_eq!(fixed.snapshot.device_traces.len(), 1);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use]
pub fn fix(mut snapshot: Snapshot) -> Fixed {
    let mut changes = Changes::default();
    structure::fix(&mut snapshot, &mut changes);
    category::fix(&mut snapshot, &mut changes);
    let mut segments = segments_by_device(&snapshot.segments);
    let mut recorded = Vec::new();
    for (device, trace) in DeviceId::first(snapshot.device_traces.len()).zip(&mut snapshot.device_traces) {
        let segments = segments.remove(&device).unwrap_or_default();
        let place = format!("device_traces[{device}]");
        let n_fixed = fix_trace(trace, segments, &mut snapshot.shapes, &place, &mut changes);
        recorded.push((device, n_fixed as u64));
    }
    if recorded.iter().all(|(_, n_fixed)| *n_fixed == 0) {
        return Fixed { snapshot, changes: changes.into_list() };
    }
    let settings = RecordedDevices::new(&snapshot);
    let recorded: Vec<(DeviceId, RecordedSettings)> = recorded
        .into_iter()
        .map(|(device, n_fixed)| {
            let before = settings.of(device);
            (device, RecordedSettings { n_fixed: before.n_fixed.saturating_add(n_fixed), ..before })
        })
        .collect();
    RecordedSettings::store(&mut snapshot, &recorded);
    Fixed { snapshot, changes: changes.into_list() }
}

/// The segments of each device, with their numbers in the file.
fn segments_by_device(segments: &[Segment]) -> BTreeMap<DeviceId, Vec<(usize, &Segment)>> {
    let mut of_device: BTreeMap<DeviceId, Vec<(usize, &Segment)>> = BTreeMap::new();
    for numbered in segments.iter().enumerate() {
        of_device.entry(numbered.1.device).or_default().push(numbered);
    }
    of_device
}

/// Returns how many entries it added, changed or dropped; moving an entry does not count.
fn fix_trace(
    trace: &mut Vec<TraceEntry>,
    segments: Vec<(usize, &Segment)>,
    shapes: &mut Shapes,
    place: &str,
    changes: &mut Changes,
) -> usize {
    let mut of_trace = Changes::default();
    entries::fix(trace, shapes, place, &mut of_trace);
    let end = TraceEnd::new(segments.into_iter(), shapes);
    let settled = settle(trace, &end, shapes, place);
    if let Some(settled) = settled.trace {
        *trace = settled;
    }
    of_trace.append(settled.changes);
    let n = of_trace.n() - settled.n_moved;
    changes.append(of_trace);
    n
}
