//! The model of a snapshot file: its contents, independent of its encoding.
//!
//! The same snapshot may come from `memreel::snapshot::collect`, from a pickle of PyTorch 2.0
//! to 2.15, or from JSON. The model keeps each file's key order and unknown
//! keys (see [`Shape`]), so that a file can be written back as it was. Keys
//! and units are described in `schema/snapshot.md`.
#![forbid(unsafe_code)]

mod build;
mod field;
mod field_ref;
mod fields;
mod source;
mod foreign;
mod allocated;
mod parts;
mod json;
mod streaming;
mod legacy;
mod mapped;
mod plain;
mod program;
pub mod raw;
mod recorded;
mod records;
mod resident;
#[doc(hidden)]
pub mod schema;
mod shape;
mod stack_list;
mod stack_table;
mod usage;
mod use_counts;
mod value;
mod value_reader;

pub(crate) use allocated::forget as forget_allocated;
pub use allocated::{Allocated, AllocatedOfRun};
pub(crate) use build::{Builder, MAX_RECORD_KEYS, last_of_each, stack as stack_from_value};
pub(crate) use field_ref::{FieldRef, Word};
pub(crate) use fields::{Record, frame_value};
pub(crate) use legacy::{block_uses, has_requested_size};
pub use mapped::MappedRange;
pub(crate) use mapped::forget as forget_mapped;
pub(crate) use recorded::RecordedDevices;
pub use records::{Annotation, Block, Segment, TraceEntry};
pub(crate) use resident::store as store_resident;
pub(crate) use shape::own_metadata;
pub use source::SnapshotSource;
pub(crate) use source::{collected, counted};
pub use stack_table::{Frame, FrameIndex, StackIndex, StackTable};
pub(crate) use usage::store as store_usage;
pub(crate) use value::Hex;
pub use value::{Text, Value};

#[doc(inline)]
pub use crate::words::{DeviceUsage, ResidentReport, TimedUsage};

// What the package memreel needs to collect and to replay, without a promise to others.
#[doc(hidden)]
pub use allocated::store as store_allocated;
#[doc(hidden)]
pub use field::Field;
#[doc(hidden)]
pub use mapped::store as store_mapped;
#[doc(hidden)]
pub use recorded::RecordedSettings;
#[doc(hidden)]
pub use resident::resident_setting;
#[doc(hidden)]
pub use shape::{Shape, ShapeId, Shapes, Slot};
#[doc(hidden)]
pub use source::traces;
#[doc(hidden)]
pub use usage::usage_setting;
#[doc(hidden)]
pub use use_counts::UseCounts;

use crate::words::DeviceId;

/// A memory snapshot: segments, blocks and traces of every device.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Every device's segments, in the order of the file.
    pub segments: Vec<Segment>,
    /// The events of each device, oldest first; the index is the device's ordinal.
    pub device_traces: Vec<Vec<TraceEntry>>,
    /// The segments of pinned host memory (PyTorch 2.14 and later).
    pub host_segments: Vec<Segment>,
    /// Events of pinned host memory (PyTorch 2.14 and later).
    pub host_traces: Vec<TraceEntry>,
    /// The starts and ends of scopes.
    pub external_annotations: Vec<Annotation>,
    /// Frames and stacks, each once.
    pub stacks: StackTable,
    /// Key orders and shared values of the records above.
    pub shapes: Shapes,
    /// The keys of the top level; `allocator_settings` and unknown keys have their values here.
    pub shape: Shape,
    /// Whether the file is a dictionary or a bare list of segments.
    pub top_level: TopLevel,
}

/// The outermost object of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TopLevel {
    /// A dictionary, as `_dump_snapshot` writes it.
    #[default]
    Dictionary,
    /// A list of segments, as `memory_snapshot()` returns it.
    SegmentList,
}

impl Default for Snapshot {
    /// Returns an empty snapshot: no segments and no traces.
    fn default() -> Snapshot {
        let shape =
            Shape::from_fields(&[("segments", Field::Segments), ("device_traces", Field::DeviceTraces)]);
        Snapshot { shape, ..Snapshot::without_keys() }
    }
}

impl Snapshot {
    /// Returns the initial value for a reader: the keys come from the file.
    pub(crate) fn without_keys() -> Snapshot {
        Snapshot {
            segments: Vec::new(),
            device_traces: Vec::new(),
            host_segments: Vec::new(),
            host_traces: Vec::new(),
            external_annotations: Vec::new(),
            stacks: StackTable::default(),
            shapes: Shapes::default(),
            shape: Shape::default(),
            top_level: TopLevel::Dictionary,
        }
    }

    /// Returns the `allocator_settings`, if the file has them.
    #[must_use]
    pub fn allocator_settings(&self) -> Option<&Value> {
        self.shape.value("allocator_settings")
    }

    /// Returns the text of an entry's `user_metadata`: the scope in which it was recorded, empty outside any; for an
    /// `annotate`, the name of a block.
    #[must_use]
    pub fn user_metadata(&self, entry: &TraceEntry) -> &str {
        self.shapes.get(entry.shape).user_metadata().unwrap_or_default()
    }

    /// Returns the keys and values of an entry's `user_metadata`, if it is a JSON object, as PyTorch 2.15 makes of a
    /// dictionary.
    ///
    /// ```
    /// # use memreel::snapshot::Snapshot;
    /// let json = r#"{"segments": [], "device_traces": [[{"action": "alloc", "user_metadata": "{\"step\":3}"}]]}"#;
    /// let snapshot: Snapshot = serde_json::from_str(json)?;
    /// assert_eq!(snapshot.metadata(&snapshot.device_traces[0][0]).unwrap()["step"], 3);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn metadata(&self, entry: &TraceEntry) -> Option<serde_json::Map<String, serde_json::Value>> {
        let text = self.user_metadata(entry);
        // Most texts are names, for which no parsing is attempted.
        if text.starts_with('{') { serde_json::from_str(text).ok() } else { None }
    }

    /// Returns the frames of an entry, a block or a segment, innermost first; none without a stack.
    ///
    /// ```
    /// # let reel = memreel::Reel::builder().history(memreel::recorder::Recording::all()).build()?;
    /// # let _block = reel.alloc(1000)?;
    /// let snapshot = reel.snapshot();
    /// for block in snapshot.segments.iter().flat_map(|segment| &segment.blocks) {
    ///     if let Some(frame) = snapshot.frames(block.stack).next() {
    ///         println!("{} bytes from {}:{}", block.requested_size, frame.filename, frame.line);
    ///     }
    /// }
    /// # Ok::<(), memreel::Error>(())
    /// ```
    ///
    /// # Panics
    /// If the stack is another snapshot's.
    pub fn frames(&self, stack: Option<StackIndex>) -> impl DoubleEndedIterator<Item = &Frame> {
        self.stacks.frames(stack.unwrap_or(StackTable::EMPTY))
    }

    /// Returns the file name of the program or library that a frame is in, such as `libnccl.so.2`; `None` if the file
    /// does not show it.
    #[must_use]
    pub fn library(&self, frame: &Frame) -> Option<&str> {
        self.shapes.get(frame.shape).text("library")
    }

    /// Returns the events of a device, oldest first; none if the file has no trace of it. [`DeviceId::HOST`] has those of
    /// pinned host memory.
    #[must_use]
    pub fn trace(&self, device: impl Into<DeviceId>) -> &[TraceEntry] {
        let device = device.into();
        if device == DeviceId::HOST {
            return &self.host_traces;
        }
        let trace = device.index().and_then(|index| self.device_traces.get(index));
        trace.map_or(&[], Vec::as_slice)
    }

    /// Returns whether the file has pinned host memory, as PyTorch 2.14 records it on request.
    #[must_use]
    pub fn has_host(&self) -> bool {
        !self.host_segments.is_empty() || !self.host_traces.is_empty()
    }

    /// Returns the segments of one device, or of all, in the order of the file. `history::ByDevice` has those of each of
    /// many devices.
    pub(crate) fn segments_of(&self, device: Option<DeviceId>) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(move |segment| device.is_none_or(|device| segment.device == device))
    }

    /// Returns the number of events in all traces, including those of pinned host memory.
    #[must_use]
    pub fn n_events(&self) -> usize {
        self.device_traces.iter().map(Vec::len).sum::<usize>() + self.host_traces.len()
    }
}
