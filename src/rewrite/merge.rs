//! Several snapshots become one, and one becomes several: by device.

use crate::{
    error::{Error, Result},
    event::DeviceId,
    snapshot::{Annotation, Field, FrameIndex, Segment, ShapeId, Slot, Snapshot, StackIndex, TraceEntry},
};

/// More devices than any menu shows.
const MAX_DEVICES: usize = 1 << 16;

/// One file of several that become one.
#[derive(Debug)]
pub struct Part {
    /// What it holds.
    pub snapshot: Snapshot,
    /// Its number among the processes of a run, where that is known.
    pub rank: Option<usize>,
}

/// Several snapshots in one, each under device numbers of its own.
///
/// With one device in each file, as the ranks of a training run have, the
/// device's number is the rank: the viewer's menu of devices then picks the
/// rank. Without ranks, devices keep their numbers if no two files have the
/// same, and are numbered in the order of the files if they do. Files of
/// several devices get as many numbers each as the largest needs. Settings
/// and unknown keys of the top level are those of the first file that has them.
///
/// # Errors
/// [`is_misuse`](crate::Error::is_misuse) if two files have the same rank, or
/// the numbers become too large.
pub fn merge(parts: impl IntoIterator<Item = Part>) -> Result<Snapshot> {
    let parts: Vec<Part> = parts.into_iter().collect();
    let places = places(&parts)?;
    let mut whole = Snapshot::default();
    for (part, place) in parts.into_iter().zip(places) {
        add(&mut whole, part.snapshot, &place);
    }
    for (key, field) in [("segments", Field::Segments), ("device_traces", Field::DeviceTraces)] {
        whole.shape.set(key.into(), Slot::Field(field));
    }
    if whole.device_traces.is_empty() {
        whole.device_traces.push(Vec::new());
    }
    whole.segments.sort_by_key(|segment| segment.device);
    Ok(whole)
}

/// The devices that have events or segments.
fn devices(snapshot: &Snapshot) -> Vec<usize> {
    let traced = snapshot.device_traces.iter().enumerate().filter(|(_, trace)| !trace.is_empty());
    let mut devices: Vec<usize> = traced.map(|(device, _)| device).collect();
    devices.extend(snapshot.segments.iter().filter_map(|segment| usize::try_from(segment.device).ok()));
    devices.sort_unstable();
    devices.dedup();
    devices
}

/// The new number of every device, by file.
fn places(parts: &[Part]) -> Result<Vec<Vec<(usize, usize)>>> {
    let found: Vec<Vec<usize>> = parts.iter().map(|part| devices(&part.snapshot)).collect();
    let stride = found.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let ranks: Option<Vec<usize>> = parts.iter().map(|part| part.rank).collect();
    let mut all: Vec<usize> = found.iter().flatten().copied().collect();
    all.sort_unstable();
    let is_apart = all.windows(2).all(|pair| pair[0] != pair[1]);
    let ranks = match ranks {
        Some(ranks) => {
            let mut sorted = ranks.clone();
            sorted.sort_unstable();
            if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(Error::misuse(format!("two files have the rank {}", pair[0])));
            }
            ranks
        }
        None if is_apart => {
            return Ok(found.into_iter().map(|f| f.into_iter().map(|d| (d, d)).collect()).collect());
        }
        None => (0..parts.len()).collect(),
    };
    let place = |(rank, devices): (usize, Vec<usize>)| {
        let first = rank.saturating_mul(stride);
        if first >= MAX_DEVICES {
            return Err(Error::misuse(format!("the rank {rank} is too large")));
        }
        Ok(devices.into_iter().enumerate().map(|(nth, device)| (device, first + nth)).collect())
    };
    ranks.into_iter().zip(found).map(place).collect()
}

/// Numbers of one snapshot's tables in another's.
struct Tables {
    stacks: Vec<StackIndex>,
    shapes: Vec<ShapeId>,
}

impl Tables {
    fn of(whole: &mut Snapshot, part: &Snapshot) -> Tables {
        let shapes: Vec<ShapeId> =
            part.shapes.iter().map(|(_, shape)| whole.shapes.intern(shape.clone())).collect();
        let frames: Vec<FrameIndex> = part
            .stacks
            .all_frames()
            .map(|frame| {
                let mut frame = frame.clone();
                frame.shape = shapes[frame.shape.index()];
                whole.stacks.intern_frame(frame)
            })
            .collect();
        let mut members = Vec::new();
        let stacks = part.stacks.all_stacks().map(|stack| {
            members.clear();
            members.extend(stack.iter().map(|frame| frames[frame.index()]));
            whole.stacks.intern_stack(&members)
        });
        Tables { stacks: stacks.collect(), shapes }
    }

    fn stack(&self, stack: &mut Option<StackIndex>) {
        *stack = stack.map(|stack| self.stacks[stack.index()]);
    }

    fn entry(&self, entry: &mut TraceEntry) {
        self.stack(&mut entry.stack);
        entry.shape = self.shapes[entry.shape.index()];
    }

    fn segment(&self, segment: &mut Segment) {
        self.stack(&mut segment.stack);
        segment.shape = self.shapes[segment.shape.index()];
        for block in &mut segment.blocks {
            self.stack(&mut block.stack);
            block.shape = self.shapes[block.shape.index()];
        }
    }
}

fn add(whole: &mut Snapshot, mut part: Snapshot, places: &[(usize, usize)]) {
    let place = |device: i64| {
        let found = places.iter().find(|(from, _)| i64::try_from(*from) == Ok(device));
        // A scope may have begun on a device without memory: it goes with its file's first.
        found.or(places.first()).map_or(device, |(_, to)| i64::try_from(*to).unwrap_or(device))
    };
    let tables = Tables::of(whole, &part);
    part.segments.iter_mut().chain(&mut part.host_segments).for_each(|segment| tables.segment(segment));
    part.segments.iter_mut().for_each(|segment| segment.device = place(segment.device));
    for (from, to) in places {
        let Some(trace) = part.device_traces.get_mut(*from) else { continue };
        trace.iter_mut().for_each(|entry| tables.entry(entry));
        if whole.device_traces.len() <= *to {
            whole.device_traces.resize_with(to + 1, Vec::new);
        }
        whole.device_traces[*to] = std::mem::take(trace);
    }
    let last = places.iter().map(|(_, to)| to + 1).max().unwrap_or(0);
    whole.device_traces.resize_with(whole.device_traces.len().max(last), Vec::new);
    part.host_traces.iter_mut().for_each(|entry| tables.entry(entry));
    for annotation in &mut part.external_annotations {
        annotation.shape = tables.shapes[annotation.shape.index()];
        annotation.device = place(annotation.device);
    }
    whole.segments.append(&mut part.segments);
    whole.host_segments.append(&mut part.host_segments);
    whole.host_traces.append(&mut part.host_traces);
    whole.external_annotations.append(&mut part.external_annotations);
    for (key, slot) in part.shape.slots {
        if whole.shape.slot(&key).is_none() {
            whole.shape.set(key, slot);
        }
    }
}

/// One snapshot for each device that has events or segments, under its own number.
///
/// Pinned host memory belongs to no device and goes with the first. Scopes go
/// with the device that they were opened on. [`merge`] makes one of them again.
#[must_use]
pub fn split(mut snapshot: Snapshot) -> Vec<(DeviceId, Snapshot)> {
    let devices = devices(&snapshot);
    let n_traces = snapshot.device_traces.len();
    let segments = std::mem::take(&mut snapshot.segments);
    let mut traces = std::mem::take(&mut snapshot.device_traces);
    let annotations = std::mem::take(&mut snapshot.external_annotations);
    let first = devices.first().copied();
    devices
        .into_iter()
        .filter_map(|device| {
            let is_own = |of: i64| usize::try_from(of) == Ok(device);
            let is_first = Some(device) == first;
            let host = |list: &mut Vec<_>| if is_first { std::mem::take(list) } else { Vec::new() };
            let mut part = Snapshot {
                segments: segments.iter().filter(|segment| is_own(segment.device)).cloned().collect(),
                device_traces: vec![Vec::new(); n_traces.max(device + 1)],
                host_segments: host(&mut snapshot.host_segments),
                host_traces: Vec::new(),
                external_annotations: own_annotations(&annotations, device, is_first, n_traces),
                stacks: snapshot.stacks.clone(),
                shapes: snapshot.shapes.clone(),
                shape: snapshot.shape.clone(),
                form: snapshot.form,
            };
            if is_first {
                part.host_traces = std::mem::take(&mut snapshot.host_traces);
            }
            if let Some(trace) = traces.get_mut(device) {
                part.device_traces[device] = std::mem::take(trace);
            }
            Some((DeviceId(u16::try_from(device).ok()?), part))
        })
        .collect()
}

fn own_annotations(all: &[Annotation], device: usize, is_first: bool, n_traces: usize) -> Vec<Annotation> {
    let of = |annotation: &Annotation| usize::try_from(annotation.device).ok().filter(|of| *of < n_traces);
    all.iter().filter(|annotation| of(annotation).map_or(is_first, |of| of == device)).cloned().collect()
}
