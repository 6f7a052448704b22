//! Recorder and inventories, read while each allocator stands still, become a `Snapshot`.

use rustc_hash::FxHashMap;

use super::{
    Annotation, Block, Field, Form, Frame, FrameIndex, Segment, Shape, ShapeId, Slot, Snapshot, StackIndex,
    Stacks, Text, TraceEntry, Value,
};
use crate::{
    event::{Action, Address, Event, PoolId, StackId, StreamId},
    inventory::{self, Inventory, SettingsReport},
    recorder::{Entry, Recorder, ScopeId},
    stack::{Symbol, Symbolizer},
};

/// Which PyTorch's keys a snapshot carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Dialect {
    /// The keys of PyTorch 2.11 in its order; every viewer and tool reads them.
    #[default]
    Torch2_11,
    /// Those of PyTorch 2.15: `pool_id` in entries, `host_segments` and `host_traces`.
    Torch2_15,
}

/// What one device had at the moment it was looked at.
struct Take {
    device: usize,
    segments: Vec<inventory::Segment>,
    entries: Vec<Entry>,
    n_lost: u64,
}

/// Reads each inventory together with its device's events.
///
/// Both are read under the inventory's lock, so that they agree; then a
/// `snapshot` event is recorded, which this snapshot does not contain and the
/// next one does (snapshot-format.md 2.7). Names are looked up afterwards,
/// outside every lock.
#[must_use]
pub fn collect(recorder: &Recorder, inventories: &[&dyn Inventory], dialect: Dialect) -> Snapshot {
    let takes: Vec<Take> = inventories.iter().map(|inventory| take(recorder, *inventory)).collect();
    let settings = inventories.first().map(|inventory| inventory.settings()).unwrap_or_default();
    let mut collector = Collector::new(recorder, &takes, dialect);
    let n_devices = takes.iter().map(|take| take.device + 1).max().unwrap_or(1);
    collector.snapshot.device_traces.resize_with(n_devices, Vec::new);
    for take in &takes {
        collector.segments(take);
        collector.trace(take);
    }
    // Inventories may come in any order; a file has its devices in theirs.
    collector.snapshot.segments.sort_by_key(|segment| segment.device);
    collector.annotations(recorder);
    let n_lost = takes.iter().map(|take| take.n_lost).sum();
    collector.top(&settings, recorder.max_entries(), n_lost);
    collector.snapshot
}

fn take(recorder: &Recorder, inventory: &dyn Inventory) -> Take {
    let track = recorder.track(inventory.device());
    let mut take =
        Take { device: inventory.device().index(), segments: Vec::new(), entries: Vec::new(), n_lost: 0 };
    inventory.inspect(&mut |segments| {
        take.segments = segments.to_vec();
        {
            let ring = track.ring();
            take.entries = ring.iter().copied().collect();
            take.n_lost = ring.n_lost();
        }
        track.record(Event {
            action: Action::Snapshot,
            address: Address(0),
            size_bytes: segments.iter().map(inventory::Segment::active_bytes).sum(),
            stream: StreamId::DEFAULT,
            pool: PoolId::default(),
            stack: StackId::NONE,
        });
    });
    take
}

/// A snapshot being put together.
struct Collector {
    snapshot: Snapshot,
    dialect: Dialect,
    stacks: FxHashMap<StackId, StackIndex>,
    scopes: Vec<Text>,
    /// Entries differ in shape by their action, pool and scope, and by having frames.
    entry_shapes: FxHashMap<(bool, bool, PoolId, ScopeId), ShapeId>,
    /// Segments with a stack have their frames last, others do not.
    segment_shapes: [ShapeId; 2],
    block_shape: ShapeId,
}

impl Collector {
    fn new(recorder: &Recorder, takes: &[Take], dialect: Dialect) -> Collector {
        let mut snapshot = Snapshot { form: Form::Dictionary, ..Snapshot::default() };
        let stacks = name_stacks(recorder, takes, &mut snapshot);
        let segment_shapes = [false, true].map(|has_stack| snapshot.shapes.intern(segment_shape(has_stack)));
        let block_shape = snapshot.shapes.intern(Shape::of(&[
            ("address", Field::Address),
            ("size", Field::Size),
            ("requested_size", Field::RequestedSize),
            ("state", Field::State),
            ("frames", Field::Frames),
        ]));
        Collector {
            snapshot,
            dialect,
            stacks,
            scopes: recorder.scope_paths(),
            entry_shapes: FxHashMap::default(),
            segment_shapes,
            block_shape,
        }
    }

    fn stack(&self, stack: StackId) -> Option<StackIndex> {
        self.stacks.get(&stack).copied()
    }

    fn segments(&mut self, take: &Take) {
        for segment in &take.segments {
            let blocks: Vec<Block> = segment.blocks.iter().map(|block| self.block(block)).collect();
            let sum_of =
                |size: fn(&inventory::Block) -> u64, only: fn(inventory::BlockState) -> bool| -> u64 {
                    segment.blocks.iter().filter(|block| only(block.state)).map(size).sum()
                };
            let is_allocated = |state| state == inventory::BlockState::ActiveAllocated;
            let stack = self.stack(segment.stack);
            self.snapshot.segments.push(Segment {
                device: i64::try_from(take.device).unwrap_or(i64::MAX),
                address: segment.address.0,
                total_size: segment.bytes,
                allocated_size: sum_of(|block| block.bytes, is_allocated),
                active_size: segment.active_bytes(),
                requested_size: sum_of(|block| block.requested_bytes, inventory::BlockState::is_active),
                stream: segment.stream.0.cast_signed(),
                kind: Some(segment.kind),
                pool: segment.pool,
                is_expandable: segment.is_expandable,
                stack: Some(stack.unwrap_or(Stacks::EMPTY)),
                blocks,
                shape: self.segment_shapes[usize::from(stack.is_some())],
            });
        }
    }

    fn block(&self, block: &inventory::Block) -> Block {
        Block {
            address: block.address.0,
            size: block.bytes,
            requested_size: block.requested_bytes,
            state: Some(block.state),
            stack: Some(self.stack(block.stack).unwrap_or(Stacks::EMPTY)),
            shape: self.block_shape,
        }
    }

    fn trace(&mut self, take: &Take) {
        let mut trace = Vec::with_capacity(take.entries.len());
        for Entry { event, time_us, scope } in &take.entries {
            let stack = self.stack(event.stack);
            trace.push(TraceEntry {
                address: event.address.0,
                size: event.size_bytes,
                stream: event.stream.0.cast_signed(),
                time_us: i64::try_from(*time_us).unwrap_or(i64::MAX),
                stack,
                shape: self.entry_shape(event, *scope, stack.is_some()),
                action: Some(event.action),
            });
        }
        self.snapshot.device_traces[take.device].append(&mut trace);
    }

    fn entry_shape(&mut self, event: &Event, scope: ScopeId, has_stack: bool) -> ShapeId {
        let is_oom = event.action == Action::Oom;
        let (dialect, scopes, snapshot) = (self.dialect, &self.scopes, &mut self.snapshot);
        let make = || {
            let metadata = scopes.get(scope.0 as usize).cloned().unwrap_or_default();
            snapshot.shapes.intern(entry_shape(dialect, is_oom, has_stack, event.pool, metadata))
        };
        *self.entry_shapes.entry((is_oom, has_stack, event.pool, scope)).or_insert_with(make)
    }

    fn annotations(&mut self, recorder: &Recorder) {
        let shape = self.snapshot.shapes.intern(Shape::of(&[
            ("stage", Field::Stage),
            ("name", Field::Name),
            ("device", Field::Device),
            ("time_us", Field::TimeUs),
        ]));
        let stages: [Text; 2] = ["END".into(), "START".into()];
        let n_devices = self.snapshot.device_traces.len();
        for annotation in recorder.annotations() {
            let path = self.scopes.get(annotation.scope.0 as usize).cloned().unwrap_or_default();
            self.snapshot.external_annotations.push(Annotation {
                stage: stages[usize::from(annotation.is_start)].clone(),
                name: path,
                device: annotation.device.index().min(n_devices - 1).try_into().unwrap_or(0),
                time_us: i64::try_from(annotation.time_us).unwrap_or(i64::MAX),
                shape,
            });
        }
    }

    fn top(&mut self, settings: &SettingsReport, max_entries: usize, n_lost: u64) {
        let field = |key: &str, field| (key.into(), Slot::Field(field));
        let mut slots = vec![
            field("segments", Field::Segments),
            field("device_traces", Field::DeviceTraces),
            ("allocator_settings".into(), Slot::Value(settings_value(settings, max_entries, n_lost))),
            field("external_annotations", Field::ExternalAnnotations),
        ];
        if self.dialect == Dialect::Torch2_15 {
            slots.push(field("host_segments", Field::HostSegments));
            slots.push(field("host_traces", Field::HostTraces));
        }
        self.snapshot.shape = Shape { slots };
    }
}

/// Gives every stack in use its frames; each distinct address is named once.
fn name_stacks(
    recorder: &Recorder,
    takes: &[Take],
    snapshot: &mut Snapshot,
) -> FxHashMap<StackId, StackIndex> {
    let mut used: Vec<StackId> = takes.iter().flat_map(stacks_in).filter(|stack| stack.is_some()).collect();
    used.sort_unstable();
    used.dedup();
    let frame_shape = snapshot.shapes.intern(Shape::of(&[
        ("name", Field::Name),
        ("filename", Field::Filename),
        ("line", Field::Line),
    ]));
    let addresses = recorder.stack_addresses(used.iter().copied());
    let mut symbolizer = Symbolizer::default();
    symbolizer.prepare(addresses.iter().flatten().copied());
    used.into_iter()
        .zip(addresses)
        .map(|(stack, addresses)| {
            let symbols = symbolizer.frames(&addresses);
            let intern = |Symbol { name, filename, line }| {
                let frame = Frame { name, filename, line: u64::from(line), shape: frame_shape };
                snapshot.stacks.intern_frame(frame)
            };
            let members: Vec<FrameIndex> = symbols.into_iter().map(intern).collect();
            (stack, snapshot.stacks.intern_stack(&members))
        })
        .collect()
}

fn stacks_in(take: &Take) -> impl Iterator<Item = StackId> {
    let of_segment = |segment: &'_ inventory::Segment| {
        let of_blocks = segment.blocks.iter().map(|block| block.stack);
        std::iter::once(segment.stack).chain(of_blocks).collect::<Vec<_>>()
    };
    take.entries.iter().map(|entry| entry.event.stack).chain(take.segments.iter().flat_map(of_segment))
}

/// The keys of an entry (snapshot-format.md 1.5).
fn entry_shape(dialect: Dialect, is_oom: bool, has_stack: bool, pool: PoolId, metadata: Text) -> Shape {
    let (address_key, address) =
        if is_oom { ("device_free", Field::DeviceFree) } else { ("addr", Field::Addr) };
    let mut shape = Shape::of(&[
        ("action", Field::Action),
        (address_key, address),
        ("size", Field::Size),
        ("stream", Field::Stream),
        ("time_us", Field::TimeUs),
    ]);
    shape.slots.push(("compile_context".into(), Slot::Value(Value::text("N/A"))));
    shape.slots.push(("user_metadata".into(), Slot::Value(Value::Text(metadata))));
    if dialect == Dialect::Torch2_15 {
        let pool = Value::Tuple([pool.0, pool.1].map(Value::unsigned).into_iter().collect());
        shape.slots.push(("pool_id".into(), Slot::Value(pool)));
    }
    if has_stack {
        shape.slots.push(("frames".into(), Slot::Field(Field::Frames)));
    }
    shape
}

/// The keys of a segment; `frames` come last where there is a stack (snapshot-format.md 1.2).
fn segment_shape(has_stack: bool) -> Shape {
    let frames = ("frames", Field::Frames);
    let blocks = ("blocks", Field::Blocks);
    let [second_last, last] = if has_stack { [blocks, frames] } else { [frames, blocks] };
    Shape::of(&[
        ("device", Field::Device),
        ("address", Field::Address),
        ("total_size", Field::TotalSize),
        ("allocated_size", Field::AllocatedSize),
        ("active_size", Field::ActiveSize),
        ("requested_size", Field::RequestedSize),
        ("stream", Field::Stream),
        ("segment_type", Field::SegmentType),
        ("segment_pool_id", Field::SegmentPoolId),
        ("is_expandable", Field::IsExpandable),
        second_last,
        last,
    ])
}

/// `allocator_settings` in PyTorch's order (snapshot-format.md 1.6). Before the
/// divisions, which stay last, come memreel's own keys: who wrote the file,
/// and whether the ring lost events, which PyTorch's dumps cannot say.
fn settings_value(settings: &SettingsReport, max_entries: usize, n_lost: u64) -> Value {
    let max_split_bytes = settings.max_split_bytes.map_or(Value::Int(-1), Value::unsigned);
    let divisions: Vec<(Value, Value)> = (0..16)
        .map(|power| {
            let key = Value::text(&(1_u32 << power).to_string());
            (key, Value::Int(i64::from(settings.roundup_power2_divisions[power])))
        })
        .collect();
    Value::dict([
        ("PYTORCH_CUDA_ALLOC_CONF", Value::text(&settings.conf)),
        ("max_split_size", max_split_bytes),
        ("garbage_collection_threshold", Value::Float(settings.garbage_collection_threshold)),
        ("expandable_segments", Value::Bool(settings.expandable_segments)),
        ("pinned_num_register_threads", Value::Int(1)),
        ("release_lock_on_cudamalloc", Value::Bool(settings.release_lock_on_device_alloc)),
        ("pinned_use_cuda_host_register", Value::Bool(false)),
        ("graph_capture_record_stream_reuse", Value::Bool(false)),
        ("memreel_version", Value::text(env!("CARGO_PKG_VERSION"))),
        ("trace_alloc_max_entries", Value::unsigned(max_entries as u64)),
        ("trace_alloc_overflowed", Value::Bool(n_lost > 0)),
        ("trace_alloc_lost_entries", Value::unsigned(n_lost)),
        ("roundup_power2_divisions", Value::Dict(divisions.into())),
    ])
}
