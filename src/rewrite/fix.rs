//! A snapshot on which readers throw becomes one that they open.

use super::{
    category,
    change::{Change, Changes},
    entries, lifecycle,
    mold::Mold,
    order, rewind, structure,
    trace_end::TraceEnd,
};
use crate::{history::Places, snapshot::Snapshot};

/// Undoing may show what reading forward cannot, and the other way round. A sound
/// trace takes one round, a broken one two; more only one that is mere noise.
const MAX_ROUNDS: usize = 8;

/// A repaired snapshot, and what was done to it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fixed {
    /// What the viewer opens.
    pub snapshot: Snapshot,
    /// Nothing, if nothing had to be done.
    pub changes: Vec<Change>,
}

/// Repairs what makes PyTorch's viewer throw or draw nothing (docs/snapshot-format.md 3.5).
///
/// What is wrong with a file's bytes (the protocol, batches too long, records
/// used twice, stacks written again and again) is gone as soon as a snapshot
/// that was read is written again. This is the rest: lists and traces that are
/// missing, categories without `"unknown"`, the order of a ring that was
/// resized, and events that are missing, as `skip_actions` leaves them out. The
/// segments are believed; a trace is completed with the events that must have
/// been there, at the latest place where they can have been, and loses those
/// that contradict the segments. A sound snapshot comes back as it was.
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
    for device in 0..snapshot.device_traces.len() {
        fix_trace(&mut snapshot, device, &mut changes);
    }
    Fixed { snapshot, changes: changes.into_list() }
}

fn fix_trace(snapshot: &mut Snapshot, device: usize, changes: &mut Changes) {
    let place = format!("device_traces[{device}]");
    let trace = &mut snapshot.device_traces[device];
    entries::fix(trace, &mut snapshot.shapes, &place, changes);
    let of_device = snapshot.segments.iter().enumerate();
    let end = TraceEnd::new(
        of_device.filter(|(_, segment)| segment.device.index() == Some(device)),
        &snapshot.shapes,
    );
    order::fix(trace, &end, &snapshot.shapes, &place, changes);
    let mut mold = Mold::new(&mut snapshot.shapes);
    // What is put in and taken away is at addresses of the trace or of the segments.
    let addresses = trace.iter().map(|entry| entry.address);
    let places = Places::new(addresses.chain(end.state.blocks().iter().map(|block| block.block.address)));
    for _ in 0..MAX_ROUNDS {
        let is_completed = lifecycle::complete(trace, &places, &end, &mut mold).apply(trace, &place, changes);
        let is_rewound = rewind::check(trace, &places, &end, &mut mold).apply(trace, &place, changes);
        if !is_completed && !is_rewound {
            return;
        }
    }
}
