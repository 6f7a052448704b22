//! Creates a `Snapshot` from a recorder and its inventories, which are read while each allocator is locked.
//!
//! Events may stay on their tapes until they are written. `completed` adds the events that filters left out, and `recovered` makes
//! a snapshot of a tape's file.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, path::Path};

use rustc_hash::FxHashMap;

mod completed;
mod page_runs;
mod recovered;
mod take;
mod tape_snapshot;

use memreel_snapshot::{
    model::{
        Allocated, Annotation, Block, Field, Frame, FrameIndex, MappedRange, RecordedSettings, Segment,
        Shape, ShapeId, Shapes, Slot, Snapshot, StackIndex, StackTable, Text, TopLevel, Value,
        resident_setting, store_allocated, store_mapped, usage_setting,
    },
    pickle,
};
use take::{Take, Taking, open_empty, recorded};
use tape_snapshot::{EntryShapes, NamedStacks};

pub use completed::Completed;
#[cfg(target_os = "linux")]
pub(crate) use recovered::snapshot_of;
pub use recovered::{PackedTape, Recovered, RunNames, TapeProcess};
pub use tape_snapshot::TapeSnapshot;

use crate::{
    process::{guard::Guard, unwritten},
    recorder::{self, ContextId, Facts, Log, LogTables, Recorder, Source, Tally},
    stack::{SourceFrame, Symbol, stack_method},
};
use memreel_snapshot::words::{
    BlockState, Bytes, Inventory, InventoryBlock, InventorySegment, PoolId, Result, SettingsReport, StackId,
    usage,
};

/// The version of PyTorch whose keys a snapshot has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Dialect {
    /// The keys of PyTorch 2.11 in its order; every viewer and tool reads them.
    #[default]
    Torch2_11,
    /// Those of PyTorch 2.15: `pool_id` in entries, `host_segments` and `host_traces`.
    Torch2_15,
}

/// Reads each inventory together with its device's events.
///
/// Both are read under the inventory's lock, so that they agree; then a
/// `snapshot` event is recorded, which the next snapshot contains, and this one only if it
/// would be empty otherwise (docs/snapshot-format.md 2.7). Names are looked up afterwards,
/// outside every lock. To write the snapshot and not to look at it,
/// [`collect_lazily`] takes less memory.
///
/// Inventories of devices outside `0..65_536` are left out: a snapshot has no trace for them.
#[must_use]
pub fn collect<'a>(
    recorder: &Recorder,
    inventories: impl IntoIterator<Item = &'a (impl Inventory + ?Sized + 'a)>,
    dialect: Dialect,
) -> Snapshot {
    collect_lazily(recorder, inventories, dialect).into_snapshot()
}

/// Returns a snapshot whose events stay on their tapes until they are written. Otherwise like [`collect`].
#[must_use]
pub fn collect_lazily<'a>(
    recorder: &Recorder,
    inventories: impl IntoIterator<Item = &'a (impl Inventory + ?Sized + 'a)>,
    dialect: Dialect,
) -> TapeSnapshot {
    collected(recorder, inventories, dialect, Taking::RecordedSettings)
}

/// Like [`collect_lazily`], for memreel's own use and of tapes: no `snapshot` event is recorded.
#[must_use]
pub(crate) fn collect_quietly<'a>(
    source: &dyn Source,
    inventories: impl IntoIterator<Item = &'a (impl Inventory + ?Sized + 'a)>,
    dialect: Dialect,
) -> TapeSnapshot {
    collected(source, inventories, dialect, Taking::Quiet)
}

impl Recorder {
    /// Writes a snapshot of allocators, each with the events of its device, to a file that
    /// <https://pytorch.org/memory_viz> opens. See [`collect_lazily`] for other dialects.
    ///
    /// An allocator is a [`Recorded`](crate::Recorded), a `Ledger` or one of your own. Those of
    /// several types are a list of `&dyn Inventory`.
    ///
    /// ```
    /// use std::alloc::System;
    /// use memreel::{Recorded, integrate::Inventory, pickle, recorder::{Recorder, Recording}};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("snapshot.pickle");
    /// let recorder = Recorder::new();
    /// recorder.record_history(&Recording::all());
    /// let arena = Recorded::new(System, &recorder, 0);
    /// recorder.save(&path, [&arena])?;
    /// recorder.save(&path, [&arena as &dyn Inventory, &recorder.ledger(1)])?;
    /// assert_eq!(pickle::load(&path)?.device_traces.len(), 2);
    /// # Ok::<(), memreel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::is_io`](crate::Error::is_io); an existing file at `path` is then unchanged.
    pub fn save<'a>(
        &self,
        path: impl AsRef<Path>,
        allocators: impl IntoIterator<Item = &'a (impl Inventory + ?Sized + 'a)>,
    ) -> Result<()> {
        let recorded = collect_lazily(self, allocators, Dialect::default());
        pickle::save(&Completed::new(recorded), path.as_ref())
    }
}

fn collected<'a>(
    source: &dyn Source,
    inventories: impl IntoIterator<Item = &'a (impl Inventory + ?Sized + 'a)>,
    dialect: Dialect,
    taking: Taking,
) -> TapeSnapshot {
    // What a snapshot takes for itself is none of the heap that it is of.
    let _own = Guard::enter();
    let mut inventories = inventories.into_iter().peekable();
    let settings = inventories.peek().map(|inventory| inventory.settings()).unwrap_or_default();
    let takes = inventories.filter_map(|inventory| Take::new(source, inventory, taking)).collect();
    snapshot_of_takes(source, takes, &settings, dialect)
}

fn snapshot_of_takes(
    source: &dyn Source,
    mut takes: Vec<Take>,
    settings: &SettingsReport,
    dialect: Dialect,
) -> TapeSnapshot {
    open_empty(&mut takes);
    let facts = source.facts();
    let mut tally = Tally::default();
    takes.iter().for_each(|take| take.log.count_into(&mut tally));
    let mut collector = Collector::new(source, &facts, &takes, &tally, dialect);
    let n_devices = takes.iter().map(|take| take.device + 1).max().unwrap_or(1);
    collector.snapshot.device_traces.resize_with(n_devices, Vec::new);
    let mut shapes = EntryShapes::new(facts.tables.n_contexts());
    for take in &takes {
        collector.segments(take);
    }
    collector.shapes(&tally, &facts.tables, &mut shapes);
    // Inventories may come in any order; a file has its devices in theirs.
    collector.snapshot.segments.sort_by_key(|segment| segment.device);
    collector.annotations(&facts);
    let n_lost = takes.iter().map(|take| take.log.n_lost()).sum();
    collector.top(settings, &facts, n_lost);
    RecordedSettings::store(&mut collector.snapshot, &recorded(&facts, &takes));
    collector.allocated(&takes);
    collector.mapped(&facts);
    let mut logs: Vec<Vec<Log>> = Vec::new();
    logs.resize_with(n_devices, Vec::new);
    for take in takes {
        logs[take.device].push(take.log);
    }
    TapeSnapshot::new(collector.snapshot, logs, facts, collector.stacks, shapes, tally)
}

/// A snapshot being put together.
struct Collector {
    snapshot: Snapshot,
    dialect: Dialect,
    stacks: NamedStacks,
    scopes: Vec<Text>,
    /// Segments with a stack have their frames last, others do not.
    segment_shapes: [ShapeId; 2],
    block_shape: ShapeId,
}

impl Collector {
    fn new(source: &dyn Source, facts: &Facts, takes: &[Take], tally: &Tally, dialect: Dialect) -> Collector {
        // Names are added to these tables within the recorder's own work.
        let _own_work = Guard::enter();
        let mut snapshot = Snapshot { top_level: TopLevel::Dictionary, ..Snapshot::default() };
        let stacks = name_stacks(source, used_stacks(facts, takes, tally), &mut snapshot);
        let segment_shapes = [false, true].map(|has_stack| snapshot.shapes.intern(Shape::segment(has_stack)));
        let block_shape = snapshot.shapes.intern(Shape::block());
        let scopes = facts.scope_paths.clone();
        Collector { snapshot, dialect, stacks, scopes, segment_shapes, block_shape }
    }

    fn stack(&self, stack: StackId) -> Option<StackIndex> {
        self.stacks.get(stack)
    }

    fn segments(&mut self, take: &Take) {
        for segment in &take.segments {
            let blocks: Vec<Block> = segment.blocks.iter().map(|block| self.block(block)).collect();
            let sum_of = |size: fn(&InventoryBlock) -> u64, only: fn(BlockState) -> bool| -> u64 {
                segment.blocks.iter().filter(|block| only(block.state)).map(size).sum::<Bytes>().0
            };
            let is_allocated = |state| state == BlockState::ActiveAllocated;
            let stack = self.stack(segment.stack);
            self.snapshot.segments.push(Segment {
                device: take.device.into(),
                address: segment.address,
                total_size: segment.size_bytes,
                allocated_size: sum_of(|block| block.size_bytes, is_allocated),
                active_size: segment.active_bytes(),
                requested_size: sum_of(|block| block.requested_bytes, BlockState::is_active),
                stream: segment.stream,
                kind: Some(segment.kind),
                pool: segment.pool,
                is_expandable: segment.is_expandable,
                stack: Some(stack.unwrap_or(StackTable::EMPTY)),
                blocks,
                shape: self.segment_shapes[usize::from(stack.is_some())],
            });
        }
    }

    fn block(&self, block: &InventoryBlock) -> Block {
        Block {
            address: block.address,
            size: block.size_bytes,
            requested_size: block.requested_bytes,
            state: Some(block.state),
            stack: Some(self.stack(block.stack).unwrap_or(StackTable::EMPTY)),
            shape: self.block_shape,
        }
    }

    /// What was allocated with each stack. Stacks with the same frames are one.
    fn allocated(&mut self, takes: &[Take]) {
        let of_take = |take: &Take| {
            let mut sums: BTreeMap<StackIndex, Allocated> = BTreeMap::new();
            let run = take.allocated.as_ref()?;
            for sum in &run.stacks {
                let stack = self.stack(sum.stack).unwrap_or(StackTable::EMPTY);
                let of_stack = Allocated {
                    stack,
                    n_blocks: sum.n_blocks,
                    bytes: sum.bytes,
                    peak_bytes: Some(sum.peak_bytes),
                    least_peak_bytes: sum.peak_bytes,
                    n_at_peak: sum.n_at_peak,
                    bytes_at_peak: sum.bytes_at_peak,
                };
                sums.entry(stack).and_modify(|of| of.join(&of_stack)).or_insert(of_stack);
            }
            Some((take.device.into(), sums.into_values().collect(), run.peak_us))
        };
        let devices: Vec<_> = takes.iter().filter_map(of_take).collect();
        store_allocated(&mut self.snapshot, &devices);
    }

    /// What the process with a heap mapped itself.
    fn mapped(&mut self, facts: &Facts) {
        let Some(heap) = facts.usage.iter().find(|usage| usage.name == usage::HEAP) else { return };
        let range = |(of, [from_us, until_us]): &(recorder::MappedRange, [u64; 2])| {
            let times_us = *from_us..*until_us;
            Some(MappedRange { stack: self.stack(of.stack)?, range: of.range.clone(), times_us })
        };
        let ranges: Vec<MappedRange> = facts.mapped.iter().filter_map(range).collect();
        store_mapped(&mut self.snapshot, heap.device, &ranges);
    }

    /// The shapes of the entries that there are.
    fn shapes(&mut self, tally: &Tally, key: &LogTables, shapes: &mut EntryShapes) {
        for (context, kinds) in (0..).map(ContextId).zip(&tally.contexts) {
            for [is_oom, has_stack] in [[false, false], [false, true], [true, false], [true, true]] {
                let kind = Tally::kind(is_oom, has_stack);
                if kinds[kind] > 0 {
                    let (pool, scope) = key.place(context);
                    let metadata = self.scopes.get(scope.0 as usize).cloned().unwrap_or_default();
                    let shape = entry_shape(self.dialect, is_oom, has_stack, pool, metadata);
                    shapes.of_mut(context)[kind] = Some(self.snapshot.shapes.intern(shape));
                }
            }
        }
    }

    fn annotations(&mut self, facts: &Facts) {
        let shape = self.snapshot.shapes.intern(Shape::from_fields(&[
            ("stage", Field::Stage),
            ("name", Field::Name),
            ("device", Field::Device),
            ("time_us", Field::TimeUs),
        ]));
        let stages: [Text; 2] = ["END".into(), "START".into()];
        let n_devices = self.snapshot.device_traces.len();
        for (annotation, time_us) in &facts.annotations {
            let path = self.scopes.get(annotation.scope.0 as usize).cloned().unwrap_or_default();
            self.snapshot.external_annotations.push(Annotation {
                stage: stages[usize::from(annotation.is_start)].clone(),
                name: path,
                device: annotation.device.index().unwrap_or(0).min(n_devices - 1).into(),
                time_us: i64::try_from(*time_us).unwrap_or(i64::MAX),
                shape,
            });
        }
    }

    fn top(&mut self, settings: &SettingsReport, facts: &Facts, n_lost: u64) {
        let field = |key: &str, field| (key.into(), Slot::Field(field));
        let mut slots = vec![
            field("segments", Field::Segments),
            field("device_traces", Field::DeviceTraces),
            ("allocator_settings".into(), Slot::Value(settings_value(settings, facts, n_lost))),
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
fn name_stacks(source: &dyn Source, used: Vec<StackId>, snapshot: &mut Snapshot) -> NamedStacks {
    let _own_work = Guard::enter();
    let mut named = NamedStacks::default();
    let parts: Vec<_> = used.iter().map(|stack| source.stack_parts(*stack)).collect();
    if parts.is_empty() {
        return named;
    }
    // Before any native name: the source may wait for its interpreter, and an interpreter for other snapshots.
    let of_source = source_frames(source, parts.iter().flat_map(|parts| &parts.source));
    let Snapshot { stacks, shapes, .. } = snapshot;
    let mut shapes = FrameShapes { shapes, known: FxHashMap::default() };
    let mut intern = |symbol: &Symbol, library: Option<&Text>| {
        let (name, filename) = (symbol.name.clone(), symbol.filename.clone());
        let shape = shapes.of(library);
        stacks.intern_frame(Frame { name, filename, line: u64::from(symbol.line), shape })
    };
    let mut members: Vec<Vec<FrameIndex>> = Vec::with_capacity(parts.len());
    source.with_names(&mut |symbolizer| {
        symbolizer.prepare(parts.iter().map(|parts| (&parts.native[..], parts.generation)));
        // A few thousand symbols make up all stacks, and a symbol stays where it is in memory.
        let mut known: FxHashMap<*const Symbol, FrameIndex> = FxHashMap::default();
        for parts in &parts {
            let named = || parts.source.iter().filter_map(|word| of_source.get(word));
            let first = named().filter(|named| !named.is_python).flat_map(|named| &named.frames);
            let mut frames: Vec<FrameIndex> = first.map(|symbol| intern(symbol, None)).collect();
            let mut python = named().filter(|named| named.is_python).map(|named| &named.frames);
            symbolizer.for_each_frame(&parts.native, parts.generation, |symbol, library| {
                if symbol.name.contains(PYTHON_LOOP) {
                    let next = python.next().into_iter().flatten();
                    frames.extend(next.map(|symbol| intern(symbol, None)));
                }
                frames.push(*known.entry(symbol).or_insert_with(|| intern(symbol, library)));
            });
            frames.extend(python.flatten().map(|symbol| intern(symbol, None)));
            members.push(frames);
        }
    });
    for (stack, members) in used.into_iter().zip(members) {
        named.set(stack, snapshot.stacks.intern_stack(&members));
    }
    named
}

/// The shapes of frames: one for each library, and one for frames without.
struct FrameShapes<'a> {
    shapes: &'a mut Shapes,
    known: FxHashMap<Option<Text>, ShapeId>,
}

impl FrameShapes<'_> {
    fn of(&mut self, library: Option<&Text>) -> ShapeId {
        if let Some(known) = self.known.get(&library.cloned()) {
            return *known;
        }
        let fields = [("name", Field::Name), ("filename", Field::Filename), ("line", Field::Line)];
        let mut shape = Shape::from_fields(&fields);
        shape.slots.extend(library.map(|name| ("library".into(), Slot::Value(Value::Text(name.clone())))));
        let shape = self.shapes.intern(shape);
        self.known.insert(library.cloned(), shape);
        shape
    }
}

/// The stacks of events and of what is held, rising.
fn used_stacks(facts: &Facts, takes: &[Take], tally: &Tally) -> Vec<StackId> {
    let counted = (0..).map(StackId).zip(&tally.stacks);
    let mut used: Vec<StackId> = counted.filter(|(_, n)| **n > 0).map(|(stack, _)| stack).collect();
    let held = takes.iter().flat_map(|take| stacks_of(&take.segments));
    let allocated = takes.iter().flat_map(|take| take.allocated.iter().flat_map(|run| &run.stacks));
    let allocated = allocated.map(|sum| sum.stack);
    let mapped = facts.mapped.iter().map(|(of, _)| of.stack);
    used.extend(held.chain(allocated).chain(mapped).filter(|stack| stack.is_some()));
    used.sort_unstable();
    used.dedup();
    used
}

/// The name of a native frame that runs a Python frame contains this (docs/snapshot-format.md 1.4).
const PYTHON_LOOP: &str = "PyEval_EvalFrame";

/// The frames of a word of a second source.
struct WordFrames {
    frames: Vec<Symbol>,
    is_python: bool,
}

/// The frames of each distinct word of a second source.
fn source_frames<'a>(
    source: &dyn Source,
    words: impl Iterator<Item = &'a usize>,
) -> FxHashMap<usize, WordFrames> {
    let symbol = |frame: SourceFrame| Symbol {
        name: frame.name.into(),
        filename: frame.filename.into(),
        line: frame.line,
    };
    let mut known = FxHashMap::default();
    for word in words {
        known.entry(*word).or_insert_with(|| {
            let (frames, is_python) = source.name_word(*word);
            WordFrames { frames: frames.into_iter().map(symbol).collect(), is_python }
        });
    }
    known
}

fn stacks_of(segments: &[InventorySegment]) -> impl Iterator<Item = StackId> {
    segments.iter().flat_map(|segment| segment.blocks.iter().map(|block| block.stack).chain([segment.stack]))
}

/// The keys of an entry (docs/snapshot-format.md 1.5).
fn entry_shape(dialect: Dialect, is_oom: bool, has_stack: bool, pool: PoolId, metadata: Text) -> Shape {
    let (address_key, address) =
        if is_oom { ("device_free", Field::DeviceFree) } else { ("addr", Field::Addr) };
    let mut shape = Shape::from_fields(&[
        ("action", Field::Action),
        (address_key, address),
        ("size", Field::Size),
        ("stream", Field::Stream),
        ("time_us", Field::TimeUs),
    ]);
    shape.slots.push(("compile_context".into(), Slot::Value(Value::text("N/A"))));
    shape.slots.push(("user_metadata".into(), Slot::Value(Value::Text(metadata))));
    if dialect == Dialect::Torch2_15 {
        let pool = Value::Tuple([pool.graph, pool.user].map(Value::unsigned).into_iter().collect());
        shape.slots.push(("pool_id".into(), Slot::Value(pool)));
    }
    if has_stack {
        shape.slots.push(("frames".into(), Slot::Field(Field::Frames)));
    }
    shape
}

/// `allocator_settings` in PyTorch's order (docs/snapshot-format.md 1.6). Before the
/// divisions, which stay last, come memreel's own keys: who wrote the file and
/// how stacks were captured, and what is not in it: events that the ring
/// lost, stacks that found their table full, sizes that were left out, and
/// the bytes of which one was sampled (0 when all were kept); between them, the
/// number of snapshots that triggers of the process could not write.
fn settings_value(settings: &SettingsReport, facts: &Facts, n_lost: u64) -> Value {
    let history = &facts.options;
    let max_split_bytes = settings.max_split_bytes.map_or(Value::Int(-1), Value::unsigned);
    let divisions: Vec<(Value, Value)> = (0..16)
        .map(|power| {
            let key = Value::text(&(1_u32 << power).to_string());
            (key, Value::Int(i64::from(settings.roundup_power2_divisions[power])))
        })
        .collect();
    let pairs = [
        ("PYTORCH_CUDA_ALLOC_CONF", Value::text(&settings.conf)),
        ("max_split_size", max_split_bytes),
        ("garbage_collection_threshold", Value::Float(settings.garbage_collection_threshold)),
        ("expandable_segments", Value::Bool(settings.expandable_segments)),
        ("pinned_num_register_threads", Value::Int(1)),
        ("release_lock_on_cudamalloc", Value::Bool(settings.release_lock_on_device_alloc)),
        ("pinned_use_cuda_host_register", Value::Bool(false)),
        ("graph_capture_record_stream_reuse", Value::Bool(false)),
        ("memreel_version", Value::text(env!("CARGO_PKG_VERSION"))),
        ("trace_alloc_max_entries", Value::unsigned(history.capacity() as u64)),
        ("trace_alloc_overflowed", Value::Bool(n_lost > 0)),
        ("trace_alloc_lost_entries", Value::unsigned(n_lost)),
        ("memreel_stack_method", Value::text(stack_method().name())),
        ("memreel_stacks_refused", Value::unsigned(facts.n_stacks_refused)),
        ("memreel_dumps_failed", Value::unsigned(unwritten::n_failed())),
        ("memreel_min_size", Value::unsigned(history.min_size_bytes())),
        ("memreel_sample_bytes", Value::unsigned(history.sample_bytes())),
    ];
    let usage = usage_setting(&facts.usage);
    let last = ("roundup_power2_divisions", Value::Dict(divisions.into()));
    let resident = resident_setting(&facts.resident);
    Value::dict(pairs.into_iter().chain(usage).chain(resident).chain([last]))
}
