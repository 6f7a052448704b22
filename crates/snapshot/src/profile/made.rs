//! Turns a profile into a snapshot: a segment for each device, and a block for each live object.

use std::collections::BTreeMap;

use super::message::{Location, Profile, Sample};
use crate::{
    model::{
        Block, Frame, FrameIndex, Segment, Shape, ShapeId, Slot, Snapshot, StackIndex, StackTable, Value,
    },
    words::{Address, BlockState, DeviceId, Error, PoolKind, Result, SeededMap},
};

/// The setting that names the program that wrote a profile: `JAX`, or `pprof` if that is not known.
const WRITER: &str = "memreel_profile";

/// The names of values that are live bytes, of which the first present one counts: of Go and jemalloc, and of JAX and
/// tcmalloc.
const LIVE: [&str; 2] = ["inuse_space", "space"];

/// The most blocks for objects; beyond that, each sample is one block.
const MAX_BLOCKS: u64 = 1 << 20;

/// Where the memory of devices starts, and the distance between them.
const FIRST_ADDRESS: u64 = 1 << 40;

/// The most devices of a profile.
const MAX_DEVICES: i64 = 1 << 12;

/// Returns the snapshot of a profile.
pub(super) fn snapshot(profile: &Profile) -> Result<Snapshot> {
    let values = Values::of(profile)?;
    let mut snapshot = Snapshot::default();
    let block_shape = snapshot.shapes.intern(Shape::block());
    let segment_shape = snapshot.shapes.intern(Shape::segment(false));
    let mut stacks = Stacks::new(profile, &mut snapshot);
    let mut devices = BTreeMap::<DeviceId, Vec<Block>>::new();
    let mut room = MAX_BLOCKS;
    for sample in &profile.sample {
        let (bytes, n_objects) = values.of_sample(sample);
        if bytes == 0 {
            continue;
        }
        let stack = stacks.stack(sample);
        let n_blocks = if n_objects <= room && n_objects <= bytes { n_objects.max(1) } else { 1 };
        room = room.saturating_sub(n_blocks);
        let blocks = devices.entry(device(profile, sample)).or_default();
        for at in 0..n_blocks {
            // The objects of a stack may differ: each has its share.
            let size = bytes / n_blocks + u64::from(at < bytes % n_blocks);
            let state = Some(BlockState::ActiveAllocated);
            let (address, shape) = (Address(0), block_shape);
            blocks.push(Block { address, size, requested_size: size, stack: Some(stack), shape, state });
        }
    }
    let segments = devices.into_iter().map(|(device, blocks)| segment(device, blocks, segment_shape));
    snapshot.segments = segments.collect();
    let last = snapshot.segments.last().and_then(|segment| segment.device.index());
    snapshot.device_traces = vec![Vec::new(); last.map_or(1, |last| last + 1)];
    let writer = if is_jax(profile) { "JAX" } else { "pprof" };
    let settings = Value::dict([(WRITER, Value::text(writer))]);
    snapshot.shape.set("allocator_settings".into(), Slot::Value(settings));
    Ok(snapshot)
}

fn segment(device: DeviceId, mut blocks: Vec<Block>, shape: ShapeId) -> Segment {
    let start = FIRST_ADDRESS.saturating_mul(device.0.unsigned_abs() + 1);
    let mut next = start;
    for block in &mut blocks {
        block.address = Address(next);
        next = next.saturating_add(block.size);
    }
    let total = next - start;
    Segment {
        device,
        address: Address(start),
        total_size: total,
        allocated_size: total,
        active_size: total,
        requested_size: total,
        kind: Some(PoolKind::Large),
        stack: Some(StackTable::EMPTY),
        blocks,
        shape,
        ..Segment::default()
    }
}

/// Which values of a sample are the live bytes and the number of live objects.
struct Values {
    bytes: usize,
    objects: Option<usize>,
}

impl Values {
    fn of(profile: &Profile) -> Result<Values> {
        let find = |name: &str, unit: &str| {
            let is = |of: &super::message::ValueType| {
                profile.text(of.kind) == name && profile.text(of.unit) == unit
            };
            profile.sample_type.iter().position(is)
        };
        let bytes = LIVE.iter().find_map(|name| find(name, "bytes")).ok_or_else(|| {
            let types = profile
                .sample_type
                .iter()
                .map(|of| format!("{} ({})", profile.text(of.kind), profile.text(of.unit)));
            let types: Vec<String> = types.take(8).collect();
            Error::foreign(format!(
                "not a profile of live memory: its values are {}, not inuse_space or space in bytes",
                types.join(", "),
            ))
        })?;
        let objects = ["inuse_objects", "allocations", "objects"].iter().find_map(|name| find(name, "count"));
        Ok(Values { bytes, objects })
    }

    fn of_sample(&self, sample: &Sample) -> (u64, u64) {
        let value =
            |at: usize| sample.values.get(at).and_then(|value| u64::try_from(*value).ok()).unwrap_or(0);
        (value(self.bytes), self.objects.map_or(1, value))
    }
}

/// Returns the text of a label of a sample.
fn label<'p>(profile: &'p Profile, sample: &Sample, key: &str) -> Option<&'p str> {
    sample.labels.iter().find(|label| profile.text(label.key) == key).map(|label| profile.text(label.text))
}

/// JAX names the device of each buffer.
fn is_jax(profile: &Profile) -> bool {
    profile.sample.iter().any(|sample| label(profile, sample, "device").is_some())
}

/// Returns the device of a sample: the number at the end of its label, as in `cuda:0` and `TFRT_CPU_0`.
fn device(profile: &Profile, sample: &Sample) -> DeviceId {
    let name = label(profile, sample, "device").unwrap_or_default();
    let number = name.rsplit(|c: char| !c.is_ascii_digit()).next().and_then(|number| number.parse().ok());
    DeviceId(number.filter(|number| (0..MAX_DEVICES).contains(number)).unwrap_or(0))
}

/// The stacks of a profile as those of a snapshot.
struct Stacks<'p, 's> {
    profile: &'p Profile,
    snapshot: &'s mut Snapshot,
    frame_shape: ShapeId,
    /// The frames of each location, innermost first.
    locations: SeededMap<u64, Vec<FrameIndex>>,
}

/// The most frames of a stack, and of one location: a few bytes may repeat a location any number of times.
const MAX_FRAMES: usize = 1024;
const MAX_INLINED: usize = 32;

/// The files and functions of a profile by their numbers.
struct Names<'p> {
    files: SeededMap<u64, &'p str>,
    functions: SeededMap<u64, (&'p str, &'p str)>,
}

impl<'p, 's> Stacks<'p, 's> {
    fn new(profile: &'p Profile, snapshot: &'s mut Snapshot) -> Stacks<'p, 's> {
        let frame_shape = snapshot.shapes.intern(Shape::frame());
        let mut stacks = Stacks { profile, snapshot, frame_shape, locations: SeededMap::default() };
        let files = profile.mapping.iter().map(|mapping| (mapping.id, profile.text(mapping.file)));
        let functions = profile
            .function
            .iter()
            .map(|function| (function.id, (profile.text(function.name), profile.text(function.file))));
        let names = Names { files: files.collect(), functions: functions.collect() };
        for location in &profile.location {
            let frames = stacks.frames(location, &names);
            stacks.locations.insert(location.id, frames);
        }
        stacks
    }

    fn frames(&mut self, location: &Location, names: &Names<'_>) -> Vec<FrameIndex> {
        if location.lines.is_empty() {
            let file = names.files.get(&location.mapping).copied().unwrap_or("??");
            return vec![self.frame(&format!("{:#x}", location.address), file, 0)];
        }
        let lines = location.lines.iter().take(MAX_INLINED);
        lines
            .map(|line| {
                let (name, file) = names.functions.get(&line.function).copied().unwrap_or(("??", "??"));
                self.frame(name, file, u64::try_from(line.line).unwrap_or(0))
            })
            .collect()
    }

    fn frame(&mut self, name: &str, file: &str, line: u64) -> FrameIndex {
        let frame = Frame { name: name.into(), filename: file.into(), line, shape: self.frame_shape };
        self.snapshot.stacks.intern_frame(frame)
    }

    /// Returns the stack of a sample. One without frames has its kind, such as `executable`, in place of a function.
    fn stack(&mut self, sample: &Sample) -> StackIndex {
        let known = sample.locations.iter().filter_map(|location| self.locations.get(location));
        let mut frames: Vec<FrameIndex> = known.flatten().copied().take(MAX_FRAMES).collect();
        if frames.is_empty()
            && let Some(kind) = label(self.profile, sample, "kind")
        {
            frames = vec![self.frame(&format!("({kind})"), "", 0)];
        }
        self.snapshot.stacks.intern_stack(&frames)
    }
}
