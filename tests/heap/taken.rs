//! Snapshots of the heap, as the tests look at them.

use memreel::{
    Action, Snapshot,
    snapshot::TraceEntry,
    validate::{Rule, Severity, validate},
};

/// The index of the heap's trace: the process's reel has device 0.
pub(crate) const HEAP_DEVICE: usize = 1;

/// Takes a snapshot, which must break no rule of the format.
pub(crate) fn sound_snapshot() -> Snapshot {
    without_findings(Severity::Warning)
}

/// Takes a snapshot of a history that was erased while blocks were live: they may have no event.
pub(crate) fn later_snapshot() -> Snapshot {
    without_findings(Severity::Error)
}

fn without_findings(least: Severity) -> Snapshot {
    let snapshot = memreel::snapshot().unwrap();
    let mut findings = validate(&snapshot);
    // A round number of events looks like a full ring, and it is chance here.
    findings.retain(|finding| finding.severity >= least && finding.rule != Rule::FullRing);
    assert!(findings.is_empty(), "{findings:#?}");
    snapshot
}

/// Returns the actions and sizes of the events about an address, oldest first.
pub(crate) fn events_at(snapshot: &Snapshot, address: usize) -> Vec<(Action, u64)> {
    let at = |entry: &&TraceEntry| entry.address.0 == address as u64;
    // A heap that recorded no block is not in the snapshot.
    let events = snapshot.device_traces.get(HEAP_DEVICE).into_iter().flatten().filter(at);
    events.map(|entry| (entry.action.unwrap(), entry.size)).collect()
}

/// Returns the requested bytes of the live block at an address.
pub(crate) fn live_at(snapshot: &Snapshot, address: usize) -> Option<u64> {
    let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
    let mut active = blocks.filter(|block| block.state.is_some_and(|state| state.is_active()));
    active.find(|block| block.address.0 == address as u64).map(|block| block.requested_size)
}

/// Returns the names of the functions on the stack of the first event about an address.
pub(crate) fn functions_at(snapshot: &Snapshot, address: usize) -> Vec<String> {
    let mut trace = snapshot.device_traces[HEAP_DEVICE].iter();
    let entry = trace.find(|entry| entry.address.0 == address as u64).expect("an event");
    snapshot.frames(entry.stack).map(|frame| frame.name.to_string()).collect()
}
