//! The verdict on a failed request: what `memreel oom` would report for a snapshot of this moment.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::Serialize;

use crate::{
    collect::{Completed, Dialect, collect_quietly},
    recorder::Recorder,
    whatif,
};
use memreel_snapshot::{
    analysis::DeviceHistory,
    model::{Shape, Snapshot, SnapshotSource, TraceEntry},
    words::{Action, Address, DeviceId, Inventory, OomVerdict, OutOfMemory},
};

/// How many stacks a verdict lists: those that hold the most memory.
const N_STACKS: usize = 5;

/// The most events of which a history is replayed: that takes about half a second. Of a longer one, only the blocks are
/// examined.
const MAX_EVENTS: usize = 1 << 20;

/// The most memory that a verdict takes: for each event, for each block or segment, and in addition.
const EVENT_BYTES: usize = 256;
const BLOCK_BYTES: usize = 1024;
const BASE_BYTES: usize = 8 << 20;

/// An explanation with its device, as a JSON object.
#[derive(Serialize)]
struct OfDevice<T> {
    device: DeviceId,
    #[serde(flatten)]
    answer: T,
}

/// Finds out why a request of an allocator, which has `n_blocks` blocks and segments, failed. `None` if the process has
/// too little memory for that.
pub(super) fn verdict(
    recorder: &Recorder,
    inventory: &dyn Inventory,
    n_blocks: usize,
    figures: &OutOfMemory,
) -> Option<OomVerdict> {
    let _own = recorder.own_work();
    // A failed request is an error that programs handle; nothing that happens here may end them.
    catch_unwind(AssertUnwindSafe(|| explain(recorder, inventory, n_blocks, figures))).ok().flatten()
}

fn explain(
    recorder: &Recorder,
    inventory: &dyn Inventory,
    n_blocks: usize,
    figures: &OutOfMemory,
) -> Option<OomVerdict> {
    let n_events = recorder.n_events(figures.device);
    let is_short = n_events <= MAX_EVENTS;
    let of_events = if is_short { n_events * EVENT_BYTES } else { 0 };
    if !can_allocate(BASE_BYTES + of_events + n_blocks.saturating_mul(BLOCK_BYTES)) {
        return None;
    }
    let recorded = collect_quietly(recorder, [inventory], Dialect::default());
    let mut snapshot =
        if is_short { Completed::new(recorded).into_snapshot() } else { recorded.head().clone() };
    let at = entry_of(&mut snapshot, figures, recorder.keeps(Action::Oom))?;
    let history = DeviceHistory::new(&snapshot, figures.device);
    let report = history.oom_at(at)?.of_device(figures.device_total_bytes);
    let explanation = whatif::explain_briefly(&history, report);
    let of_device = OfDevice { device: figures.device, answer: explanation.record(N_STACKS) };
    let json = serde_json::to_string(&of_device).ok()?;
    Some(OomVerdict::new(explanation.text(N_STACKS), json))
}

/// Returns whether the process can allocate this number of bytes now. Called first, because an allocation that fails
/// aborts the process.
fn can_allocate(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

/// Returns the entry of a failed request. If it was not recorded it is added at the end: those in the trace belong to
/// earlier requests.
fn entry_of(snapshot: &mut Snapshot, figures: &OutOfMemory, is_recorded: bool) -> Option<usize> {
    let trace = snapshot.device_traces.get_mut(figures.device.index()?)?;
    let is_it = |entry: &TraceEntry| {
        entry.action == Some(Action::Oom)
            && (entry.size, entry.stream) == (figures.rounded_bytes, figures.stream)
    };
    if let Some(at) = trace.iter().rposition(is_it).filter(|_| is_recorded) {
        return Some(at);
    }
    trace.push(TraceEntry {
        address: Address(figures.device_free_bytes),
        size: figures.rounded_bytes,
        stream: figures.stream,
        action: Some(Action::Oom),
        shape: snapshot.shapes.intern(Shape::default()),
        ..TraceEntry::default()
    });
    Some(trace.len() - 1)
}
