//! Joins several snapshots into one, by device.

use std::{io, ops::Range};

use super::origin::{MergedDevice, SettingDifference, differing_settings};
use crate::{
    model::{
        Annotation, DeviceUsage, Field, Frame, FrameIndex, RecordedDevices, RecordedSettings, ResidentReport,
        Segment, ShapeId, Shapes, Slot, Snapshot, SnapshotSource, StackIndex, TraceEntry, UseCounts, Value,
        counted, forget_allocated, forget_mapped, store_resident, store_usage,
    },
    words::{DeviceId, Error, Result, SeededSet},
};

/// The limit of device numbers.
const MAX_DEVICES: usize = 1 << 16;

/// One of the snapshots that [`merge`] joins.
#[derive(Clone, Debug)]
pub struct Part<D = Snapshot> {
    snapshot: D,
    rank: Option<usize>,
}

impl<D> Part<D> {
    /// Takes a [`Snapshot`], or another [`SnapshotSource`].
    #[must_use]
    pub fn new(snapshot: D) -> Part<D> {
        Part { snapshot, rank: None }
    }

    /// Sets its number among the processes of a run. Default: not known.
    #[must_use]
    pub fn rank(self, rank: impl Into<Option<usize>>) -> Part<D> {
        Part { rank: rank.into(), ..self }
    }
}

/// Joins snapshots into one, each with its own device numbers. [`split`](super::split) splits the result again.
///
/// If each file has one device, as the ranks of a training run do, the rank becomes the number of the
/// device, so that the viewer's menu of devices picks the rank. Without ranks, devices keep their numbers
/// if these are distinct, and are numbered in the order of the files otherwise. If files have several
/// devices, each file gets the count of numbers that the largest needs. Settings and unknown keys of the
/// top level are those of the first file that has them ([`Merged::differing_settings`]); what settings say
/// about lost entries and allocations that were not recorded is kept for each device.
///
/// [`Merged`] joins files that are too large to be in memory together.
///
/// # Errors
/// [`is_misuse`](crate::Error::is_misuse) if two files have the same rank, or a number is too large.
pub fn merge(parts: impl IntoIterator<Item = Part>) -> Result<Snapshot> {
    let Merged { mut head, mut parts, tables, traces, .. } = Merged::new(parts)?;
    let trace = |source: Option<(usize, usize)>| {
        let Some((part, device)) = source else { return Vec::new() };
        let mut trace = std::mem::take(&mut parts[part].device_traces[device]);
        trace.iter_mut().for_each(|entry| tables[part].entry(entry));
        trace
    };
    head.device_traces = traces.into_iter().map(trace).collect();
    Ok(head)
}

/// The result of [`merge`] as a [`SnapshotSource`]: it reads events from its parts at every pass.
///
/// ```
/// use memreel::{pickle, rewrite::{Merged, Part}, snapshot::Snapshot};
/// # let files = [0, 1].map(|_| pickle::to_vec(&Snapshot::default()));
/// let mut parts = Vec::new();
/// for (rank, bytes) in files.iter().enumerate() {
///     parts.push(Part::new(pickle::lazy(bytes)?).rank(rank));
/// }
/// pickle::write(&Merged::new(parts)?, std::io::sink())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Merged<D> {
    head: Snapshot,
    parts: Vec<D>,
    tables: Vec<Tables>,
    /// For each device: the part that it is in, and its number there.
    traces: Vec<Option<(usize, usize)>>,
    devices: Vec<MergedDevice>,
}

impl<D: SnapshotSource> Merged<D> {
    /// Joins everything but the events.
    ///
    /// # Errors
    /// The errors of [`merge`].
    pub fn new(parts: impl IntoIterator<Item = Part<D>>) -> Result<Merged<D>> {
        let parts: Vec<Part<D>> = parts.into_iter().collect();
        let places = places(&parts)?;
        let mut merged = Merged {
            head: Snapshot::default(),
            parts: Vec::new(),
            tables: Vec::new(),
            traces: Vec::new(),
            devices: Vec::new(),
        };
        for (part, places) in parts.into_iter().zip(places) {
            merged.add(part.snapshot, &places);
        }
        merged.keep_recorded();
        let Merged { head, traces, .. } = &mut merged;
        for (key, field) in [("segments", Field::Segments), ("device_traces", Field::DeviceTraces)] {
            head.shape.set(key.into(), Slot::Field(field));
        }
        if traces.is_empty() {
            traces.push(None);
        }
        head.segments.sort_by_key(|segment| segment.device);
        Ok(merged)
    }

    /// Returns the devices with events or segments, part after part.
    #[must_use]
    pub fn devices(&self) -> &[MergedDevice] {
        &self.devices
    }

    /// Returns the settings and the unknown top-level keys in which parts differ.
    ///
    /// What settings state about the recording (lost entries, sizes that were left out) is not included, because the
    /// merged snapshot keeps it for each device.
    #[must_use]
    pub fn differing_settings(&self) -> Vec<SettingDifference> {
        differing_settings(self.parts.iter().map(SnapshotSource::head))
    }

    fn add(&mut self, part: D, places: &[(usize, usize)]) {
        let place = |device: DeviceId| {
            // They are sorted.
            let found =
                device.index().and_then(|index| places.binary_search_by_key(&index, |place| place.0).ok());
            let found = found.map(|at| &places[at]);
            // The scope of a device without memory goes to the first device of its file.
            found.or(places.first()).map_or(device, |(_, to)| (*to).into())
        };
        let (whole, head) = (&mut self.head, part.head());
        let tables = Tables::of(whole, head);
        let segment = |segment: &Segment| tables.segment(segment);
        whole
            .segments
            .extend(head.segments.iter().map(segment).map(|s| Segment { device: place(s.device), ..s }));
        whole.host_segments.extend(head.host_segments.iter().map(segment));
        whole.host_traces.extend(head.host_traces.iter().map(|entry| {
            let mut entry = *entry;
            tables.entry(&mut entry);
            entry
        }));
        whole.external_annotations.extend(head.external_annotations.iter().map(|annotation| Annotation {
            shape: tables.shapes[annotation.shape.index()],
            device: place(annotation.device),
            ..annotation.clone()
        }));
        for (key, slot) in &head.shape.slots {
            if whole.shape.slot(key).is_none() {
                whole.shape.set(key.clone(), slot.clone());
            }
        }
        let last = places.iter().map(|(_, to)| to + 1).max().unwrap_or(0);
        self.traces.resize(self.traces.len().max(last), None);
        for (from, to) in places {
            let (part_number, number_in_part) = (self.parts.len(), DeviceId::from(*from));
            if *from < part.n_traces() {
                self.traces[*to] = Some((part_number, *from));
            }
            let (device, n_entries) = ((*to).into(), part.n_entries(number_in_part));
            self.devices.push(MergedDevice { device, part: part_number, number_in_part, n_entries });
        }
        self.parts.push(part);
        self.tables.push(tables);
    }

    /// Writes what each part's settings say about its recording into those of the whole.
    fn keep_recorded(&mut self) {
        let settings: Vec<_> = self.parts.iter().map(|part| RecordedDevices::new(part.head())).collect();
        let of_device =
            |merged: &MergedDevice| (merged.device, settings[merged.part].of(merged.number_in_part));
        let recorded: Vec<_> = self.devices.iter().map(of_device).collect();
        RecordedSettings::store(&mut self.head, &recorded);
        self.keep_usage();
        self.keep_resident();
    }

    /// Writes what the devices of each part reported into the settings of the whole.
    fn keep_usage(&mut self) {
        let of_parts: Vec<Vec<DeviceUsage>> = self.parts.iter().map(|part| part.head().usage()).collect();
        let of_device = |merged: &MergedDevice| {
            let usage = of_parts[merged.part].iter().find(|usage| usage.device == merged.number_in_part)?;
            Some(DeviceUsage { device: merged.device, ..usage.clone() })
        };
        let usage: Vec<DeviceUsage> = self.devices.iter().filter_map(of_device).collect();
        store_usage(&mut self.head, &usage);
    }

    /// Writes what the kernel said of the process of each part into the settings of the whole.
    fn keep_resident(&mut self) {
        let of_parts: Vec<Vec<ResidentReport>> =
            self.parts.iter().map(|part| part.head().resident()).collect();
        let of_device = |merged: &MergedDevice| {
            let of_it = |report: &&ResidentReport| report.device == merged.number_in_part;
            let reports = of_parts[merged.part].iter().filter(of_it).cloned();
            reports.map(|report| ResidentReport { device: merged.device, ..report }).collect::<Vec<_>>()
        };
        let reports: Vec<ResidentReport> = self.devices.iter().flat_map(of_device).collect();
        store_resident(&mut self.head, &reports);
        // The sums, and what was mapped, are those of one part.
        forget_allocated(&mut self.head);
        forget_mapped(&mut self.head);
    }
}

impl<D: SnapshotSource> SnapshotSource for Merged<D> {
    fn head(&self) -> &Snapshot {
        &self.head
    }

    fn n_traces(&self) -> usize {
        self.traces.len()
    }

    fn for_each_entry(&self, device: DeviceId, look: &mut dyn FnMut(&TraceEntry)) {
        self.for_each_entry_in(device, 0..usize::MAX, look);
    }

    fn n_entries(&self, device: DeviceId) -> usize {
        device
            .get_in(&self.traces)
            .copied()
            .flatten()
            .map_or(0, |(part, device)| self.parts[part].n_entries(device.into()))
    }

    fn for_each_entry_in(&self, device: DeviceId, range: Range<usize>, look: &mut dyn FnMut(&TraceEntry)) {
        let Some((part, device)) = device.get_in(&self.traces).copied().flatten() else { return };
        let tables = &self.tables[part];
        self.parts[part].for_each_entry_in(device.into(), range, &mut |entry| {
            let mut entry = *entry;
            tables.entry(&mut entry);
            look(&entry);
        });
    }

    fn use_counts(&self) -> UseCounts {
        let mut parts: Vec<usize> = self.traces.iter().flatten().map(|(part, _)| *part).collect();
        parts.dedup();
        let is_in_turn = parts.iter().collect::<SeededSet<_>>().len() == parts.len();
        if !is_in_turn {
            return counted(self);
        }
        let mut uses = UseCounts::default();
        for part in parts {
            let Tables { stacks, shapes } = &self.tables[part];
            let of_part = self.parts[part].use_counts();
            uses.extend(&of_part, |stack| stacks[stack.index()], |shape| shapes[shape.index()]);
        }
        uses
    }

    fn check(&self) -> io::Result<()> {
        self.parts.iter().try_for_each(SnapshotSource::check)
    }
}

/// The numbers of the devices that have events or segments.
fn devices(source: &impl SnapshotSource) -> Vec<usize> {
    let mut devices: Vec<usize> =
        (0..source.n_traces()).filter(|device| source.n_entries((*device).into()) > 0).collect();
    let segments = &source.head().segments;
    devices.extend(segments.iter().filter_map(|segment| segment.device.index()));
    devices.sort_unstable();
    devices.dedup();
    devices
}

/// Returns for each file its devices with their new numbers.
fn places(parts: &[Part<impl SnapshotSource>]) -> Result<Vec<Vec<(usize, usize)>>> {
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
            if let Some(device) = all.last().filter(|device| **device >= MAX_DEVICES) {
                return Err(Error::misuse(format!("the device number {device} is too large")));
            }
            return Ok(found.into_iter().map(|f| f.into_iter().map(|d| (d, d)).collect()).collect());
        }
        None => (0..parts.len()).collect(),
    };
    let place = |(rank, devices): (usize, Vec<usize>)| {
        let first = rank.saturating_mul(stride);
        if first.saturating_add(devices.len()) > MAX_DEVICES {
            return Err(Error::misuse(format!("the rank {rank} is too large")));
        }
        Ok(devices.into_iter().enumerate().map(|(nth, device)| (device, first + nth)).collect())
    };
    ranks.into_iter().zip(found).map(place).collect()
}

/// Gives a frame the line 0 if it has none: PyTorch writes that as -1 in 64 bits without a sign.
fn has_a_line(frame: &mut Frame, shapes: &mut Shapes) {
    let shape = shapes.get(frame.shape);
    if let Some(Value::Big(_)) = shape.value("line") {
        let mut shape = shape.clone();
        shape.set("line".into(), Slot::Field(Field::Line));
        frame.shape = shapes.intern(shape);
    }
}

/// The numbers of one snapshot's stacks and shapes in another's tables.
#[derive(Debug)]
pub(crate) struct Tables {
    stacks: Vec<StackIndex>,
    shapes: Vec<ShapeId>,
}

impl Tables {
    pub(crate) fn of(whole: &mut Snapshot, part: &Snapshot) -> Tables {
        let shapes = whole.shapes.intern_all(&part.shapes);
        let frames: Vec<FrameIndex> = part
            .stacks
            .all_frames()
            .map(|frame| {
                let mut frame = frame.clone();
                frame.shape = shapes[frame.shape.index()];
                has_a_line(&mut frame, &mut whole.shapes);
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

    pub(crate) fn shape(&self, shape: ShapeId) -> ShapeId {
        self.shapes[shape.index()]
    }

    pub(crate) fn entry(&self, entry: &mut TraceEntry) {
        self.stack(&mut entry.stack);
        entry.shape = self.shapes[entry.shape.index()];
    }

    pub(crate) fn segment(&self, segment: &Segment) -> Segment {
        let mut segment = segment.clone();
        self.stack(&mut segment.stack);
        segment.shape = self.shapes[segment.shape.index()];
        for block in &mut segment.blocks {
            self.stack(&mut block.stack);
            block.shape = self.shapes[block.shape.index()];
        }
        segment
    }
}
