//! Joins PyTorch's blocks with the driver's segments: two snapshots of one process become one.
//!
//! The driver's snapshot has every client of the GPU, with one block for each allocation. PyTorch's has the blocks
//! inside the segments of its own allocator. Both have the same addresses and the same clock.
//!
//! `lives` finds the driver's allocations that are PyTorch's segments, `joined` writes the events of both in one
//! order, and `ends` makes the final segments. Before that, `clock` sets PyTorch's times to the driver's clock.
#![forbid(unsafe_code)]

mod clock;
mod ends;
mod joined;
mod lives;
mod settings;
mod side;

use std::{collections::BTreeMap, mem};

use side::Side;

use crate::rewrite::{Tables, fix};
use crate::{
    model::{Annotation, Field, Segment, Shapes, Slot, Snapshot, TraceEntry},
    words::{Action, DeviceId, Error, Result},
};

/// Joins the snapshot of the driver's allocations with PyTorch's snapshot of the same process.
///
/// PyTorch's segments replace the driver's allocations that they consist of, so that no memory counts twice. Each keeps
/// the driver's stack, which has native frames and so the owner. Events are in the order of their times. What PyTorch's
/// history does not cover remains the driver's: memory of other libraries, events before the history started, and
/// events after the dump. A segment that PyTorch had before its history started has one block, the driver's, until
/// then. Where the driver frees a segment after the dump, the blocks in it are freed too.
///
/// PyTorch's times are converted to the driver's clock, using the segments that start in both.
///
/// PyTorch's settings replace those of the same names; memreel's own stay. The time of the dump is the setting
/// `memreel_torch_time_us`: that of PyTorch's settings, or the last event's. Entries of the action `snapshot` are left
/// out, because their sizes are those of one of the two. What still contradicts itself is repaired as by
/// [`fix`].
///
/// With the backend `cudaMallocAsync` PyTorch has no segments, and the driver's snapshot stays as it is.
///
/// ```
/// use memreel::{rewrite::merge_torch, snapshot::Snapshot};
/// # let driver: Snapshot = serde_json::from_str(r#"{"segments": [], "device_traces": [[]]}"#)?;
/// # let torch = driver.clone();
/// let merged = merge_torch(driver, torch)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::is_misuse`](crate::Error::is_misuse) if PyTorch's events have no times, as those of PyTorch 2.1 and older.
pub fn merge_torch(driver: Snapshot, mut torch: Snapshot) -> Result<Snapshot> {
    drop_unsegmented(&mut torch);
    let mut torch = fix(torch).snapshot;
    let has_time = |entry: &TraceEntry| torch.shapes.get(entry.shape).has(Field::TimeUs);
    if !torch.device_traces.iter().flatten().all(has_time) {
        return Err(Error::misuse("PyTorch's snapshot has events without times; use PyTorch 2.2 or newer"));
    }
    let dumped_us = settings::dumped_us(&torch);
    let mut merged = driver;
    let tables = Tables::of(&mut merged, &torch);
    settings::merge(&mut merged, &torch, dumped_us);
    annotations(&mut merged, &torch, &tables);
    let mut segments = by_device(mem::take(&mut merged.segments));
    let mut of_torch = by_device(mem::take(&mut torch.segments));
    let n_devices = merged.device_traces.len().max(torch.device_traces.len());
    merged.device_traces.resize_with(n_devices, Vec::new);
    torch.device_traces.resize_with(n_devices, Vec::new);
    for (index, device) in DeviceId::first(n_devices).enumerate() {
        let ours = Side {
            segments: take_of(&mut segments, device),
            trace: mem::take(&mut merged.device_traces[index]),
        };
        let theirs = Side::of_torch(
            take_of(&mut of_torch, device),
            mem::take(&mut torch.device_traces[index]),
            &tables,
        );
        let Side { segments, trace } = merge_side(ours, theirs, device, dumped_us, &mut merged.shapes);
        merged.segments.extend(segments);
        merged.device_traces[index] = trace;
    }
    merged.segments.extend(segments.into_values().flatten());
    let ours =
        Side { segments: mem::take(&mut merged.host_segments), trace: mem::take(&mut merged.host_traces) };
    let theirs =
        Side::of_torch(mem::take(&mut torch.host_segments), mem::take(&mut torch.host_traces), &tables);
    let host = merge_side(ours, theirs, DeviceId::HOST, dumped_us, &mut merged.shapes);
    (merged.host_segments, merged.host_traces) = (host.segments, host.trace);
    Ok(fix(merged).snapshot)
}

/// Joins one device of both.
fn merge_side(
    driver: Side,
    torch: Side,
    device: DeviceId,
    dumped_us: Option<i64>,
    shapes: &mut Shapes,
) -> Side {
    if torch.is_empty() {
        return driver;
    }
    if driver.is_empty() {
        return torch;
    }
    let [driver, torch] = [driver, torch].map(|side| Side {
        trace: side.trace.into_iter().filter(|entry| entry.action != Some(Action::Snapshot)).collect(),
        ..side
    });
    let mut torch = torch;
    clock::align(&driver.trace, &mut torch.trace);
    let start = lives::Start::new(&torch, device, dumped_us, shapes);
    let found = lives::find(&driver, &torch, &start);
    let trace = joined::join(&driver, &torch, &start, &found, shapes);
    let segments = ends::segments(driver.segments, torch.segments, &found, shapes);
    Side { segments, trace }
}

/// Drops the events of devices without segments: those of a backend that leaves segments to the driver.
fn drop_unsegmented(torch: &mut Snapshot) {
    let segments = &torch.segments;
    for (device, trace) in DeviceId::first(torch.device_traces.len()).zip(&mut torch.device_traces) {
        let has_segments =
            segments.iter().any(|segment| segment.device == device) || trace.iter().any(is_of_segment);
        if !has_segments {
            *trace = Vec::new();
        }
    }
}

fn is_of_segment(entry: &TraceEntry) -> bool {
    use Action::{SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap};
    matches!(entry.action, Some(SegmentAlloc | SegmentFree | SegmentMap | SegmentUnmap))
}

/// Adds PyTorch's annotations, by time.
fn annotations(merged: &mut Snapshot, torch: &Snapshot, tables: &Tables) {
    if torch.external_annotations.is_empty() {
        return;
    }
    merged.external_annotations.extend(
        torch
            .external_annotations
            .iter()
            .map(|annotation| Annotation { shape: tables.shape(annotation.shape), ..annotation.clone() }),
    );
    merged.external_annotations.sort_by_key(|annotation| annotation.time_us);
    let has = merged.shape.slot("external_annotations").is_some();
    if !has {
        merged.shape.set("external_annotations".into(), Slot::Field(Field::ExternalAnnotations));
    }
}

/// The segments of each device, by its number; each device's in the order of the file.
fn by_device(segments: Vec<Segment>) -> BTreeMap<DeviceId, Vec<Segment>> {
    let mut of_device = BTreeMap::<DeviceId, Vec<Segment>>::new();
    for segment in segments {
        of_device.entry(segment.device).or_default().push(segment);
    }
    of_device
}

fn take_of(segments: &mut BTreeMap<DeviceId, Vec<Segment>>, device: DeviceId) -> Vec<Segment> {
    segments.remove(&device).unwrap_or_default()
}
