//! Splits a snapshot into several, by device.

use crate::{
    analysis::devices,
    history::ByDevice,
    model::{Annotation, Frame, FrameIndex, Segment, ShapeId, Snapshot, StackIndex, TraceEntry},
    words::{DeviceId, SeededMap},
};

/// Up to this number of traces, each part has a list for each device of the whole. Beyond it, the lists alone of all
/// parts would be many times as large as the file, and a part has those up to its own device.
const MOST_TRACES: usize = 4096;

/// Splits a snapshot into one for each device that has events or segments, which keeps its number.
///
/// Pinned host memory does not belong to a device and goes to the first. Scopes go to the device on which
/// they were opened. [`merge`](super::merge) joins the snapshots again. Devices whose number has more than 16 bits are
/// left out. [`parts`] makes the snapshots one by one.
#[must_use]
pub fn split(snapshot: Snapshot) -> Vec<(DeviceId, Snapshot)> {
    parts(&snapshot).collect()
}

/// Splits a snapshot like [`split`], but creates each part on demand: all of them together may be far larger than the
/// snapshot.
pub fn parts(snapshot: &Snapshot) -> impl Iterator<Item = (DeviceId, Snapshot)> {
    let parts = Parts::new(snapshot);
    let devices = parts.devices.clone();
    devices.into_iter().map(move |device| (device.into(), parts.part(device)))
}

/// Returns the part of one device; `None` if it has no events and no segments.
#[must_use]
pub fn part(snapshot: &Snapshot, device: impl Into<DeviceId>) -> Option<Snapshot> {
    let parts = Parts::new(snapshot);
    let device = u16::try_from(device.into().0).ok()?;
    parts.devices.contains(&device).then(|| parts.part(device))
}

/// The records of a snapshot, by device.
struct Parts<'a> {
    snapshot: &'a Snapshot,
    records: ByDevice<'a>,
    /// In ascending order.
    devices: Vec<u16>,
    /// The annotations of devices without a trace, which go with the first device.
    foreign: Vec<usize>,
}

impl<'a> Parts<'a> {
    fn new(snapshot: &'a Snapshot) -> Parts<'a> {
        let devices =
            devices(snapshot).into_iter().filter_map(|device| u16::try_from(device.0).ok()).collect();
        let n_traces = snapshot.device_traces.len();
        let is_foreign =
            |annotation: &Annotation| annotation.device.index().is_none_or(|device| device >= n_traces);
        let annotations = snapshot.external_annotations.iter().enumerate();
        let foreign = annotations.filter(|(_, annotation)| is_foreign(annotation)).map(|(place, _)| place);
        Parts { snapshot, records: ByDevice::new(snapshot), devices, foreign: foreign.collect() }
    }

    fn part(&self, number: u16) -> Snapshot {
        let (snapshot, device) = (self.snapshot, usize::from(number));
        let n_traces = snapshot.device_traces.len();
        let n_lists = if n_traces > MOST_TRACES { device + 1 } else { n_traces.max(device + 1) };
        let mut part = Snapshot {
            device_traces: vec![Vec::new(); n_lists],
            shape: snapshot.shape.clone(),
            top_level: snapshot.top_level,
            ..Snapshot::default()
        };
        let mut tables = OwnTables::default();
        let entries = snapshot.trace(number).iter();
        part.device_traces[device] = entries.map(|entry| tables.entry(entry, snapshot, &mut part)).collect();
        let segments = self.records.segments(number);
        part.segments = segments.map(|(_, segment)| tables.segment(segment, snapshot, &mut part)).collect();
        let is_first = self.devices.first() == Some(&number);
        if is_first {
            let (segments, entries) = (&snapshot.host_segments, &snapshot.host_traces);
            part.host_segments =
                segments.iter().map(|segment| tables.segment(segment, snapshot, &mut part)).collect();
            part.host_traces = entries.iter().map(|entry| tables.entry(entry, snapshot, &mut part)).collect();
        }
        for place in self.annotations(device, is_first) {
            let annotation = snapshot.external_annotations[place].clone();
            let shape = tables.shape(annotation.shape, snapshot, &mut part);
            part.external_annotations.push(Annotation { shape, ..annotation });
        }
        part
    }

    /// Returns the annotations that belong to a device, by their places.
    fn annotations(&self, device: usize, is_first: bool) -> Vec<usize> {
        let has_trace = device < self.snapshot.device_traces.len();
        let own = if has_trace { self.records.annotations(device) } else { &[] };
        let foreign = if is_first { &self.foreign[..] } else { &[] };
        let mut places = [own, foreign].concat();
        places.sort_unstable();
        places
    }
}

/// The stacks and shapes that a part uses, with their numbers there: the time of a part depends on its own records alone.
#[derive(Default)]
struct OwnTables {
    stacks: SeededMap<StackIndex, StackIndex>,
    frames: SeededMap<FrameIndex, FrameIndex>,
    shapes: SeededMap<ShapeId, ShapeId>,
}

impl OwnTables {
    fn shape(&mut self, shape: ShapeId, whole: &Snapshot, part: &mut Snapshot) -> ShapeId {
        *self.shapes.entry(shape).or_insert_with(|| part.shapes.intern_shared(&whole.shapes, shape))
    }

    fn frame(&mut self, index: FrameIndex, whole: &Snapshot, part: &mut Snapshot) -> FrameIndex {
        if let Some(known) = self.frames.get(&index) {
            return *known;
        }
        let frame = whole.stacks.frame(index).clone();
        let shape = self.shape(frame.shape, whole, part);
        let known = part.stacks.intern_frame(Frame { shape, ..frame });
        self.frames.insert(index, known);
        known
    }

    fn stack(
        &mut self,
        stack: Option<StackIndex>,
        whole: &Snapshot,
        part: &mut Snapshot,
    ) -> Option<StackIndex> {
        let stack = stack?;
        if let Some(known) = self.stacks.get(&stack) {
            return Some(*known);
        }
        let members = whole.stacks.members(stack).iter();
        let frames: Vec<FrameIndex> = members.map(|frame| self.frame(*frame, whole, part)).collect();
        let known = part.stacks.intern_stack(&frames);
        self.stacks.insert(stack, known);
        Some(known)
    }

    fn entry(&mut self, entry: &TraceEntry, whole: &Snapshot, part: &mut Snapshot) -> TraceEntry {
        let stack = self.stack(entry.stack, whole, part);
        TraceEntry { stack, shape: self.shape(entry.shape, whole, part), ..*entry }
    }

    fn segment(&mut self, segment: &Segment, whole: &Snapshot, part: &mut Snapshot) -> Segment {
        let mut segment = segment.clone();
        segment.stack = self.stack(segment.stack, whole, part);
        segment.shape = self.shape(segment.shape, whole, part);
        for block in &mut segment.blocks {
            block.stack = self.stack(block.stack, whole, part);
            block.shape = self.shape(block.shape, whole, part);
        }
        segment
    }
}
