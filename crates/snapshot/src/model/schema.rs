//! The keys of the format: one table for each kind of record, used by reader, writer, JSON and validation.

use super::field::Field;
use crate::words::{
    Rule,
    Severity::{self, Error, Pytorch},
};

/// The required type of a key's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An integer of at least 0.
    Count,
    /// An integer.
    Int,
    /// One of these texts.
    OneOf(&'static str),
    /// A truth value.
    Bool,
    /// A tuple of two integers of at least 0, which is a field.
    Pool,
    /// A text that is a field.
    Name,
    /// An integer of at least 0 in a frame.
    Line,
    /// A list of dictionaries, each a frame, a block or another record.
    Records,
    /// A list of lists of records.
    Traces,
    /// A dictionary that is kept as it is.
    Dict,
    /// A text without a field.
    Text,
    /// A list of texts without a field.
    Texts,
    /// Two integers without a field.
    Pair,
}

/// A known key: its field, its type, the first release with it, and the severity of a value of another type.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Its field; `None` if the value is kept in the shape.
    pub field: Option<Field>,
    /// What its value has to be.
    pub kind: Kind,
    /// The first release of PyTorch that writes it; memreel reads files from 2.0 on.
    pub since: &'static str,
    /// The rule that a value of another type breaks.
    pub rule: Rule,
    /// The severity of a value of another type.
    pub severity: Severity,
}

const fn key(
    name: &'static str,
    field: Field,
    kind: Kind,
    since: &'static str,
    rule: Rule,
    severity: Severity,
) -> Key {
    Key { name, field: Some(field), kind, since, rule, severity }
}

const fn number(name: &'static str, field: Field, kind: Kind, since: &'static str) -> Key {
    key(name, field, kind, since, Rule::Integers, Error)
}

const fn without_field(
    name: &'static str,
    kind: Kind,
    since: &'static str,
    rule: Rule,
    severity: Severity,
) -> Key {
    Key { name, field: None, kind, since, rule, severity }
}

const FORWARD_FRAMES: Key = without_field("forward_frames", Kind::Texts, "2.11", Rule::Frames, Error);

const fn frames(since: &'static str) -> Key {
    key("frames", Field::Frames, Kind::Records, since, Rule::Frames, Error)
}

/// The keys of the outermost dictionary (`docs/snapshot-format.md` 1.1).
pub const SNAPSHOT: &[Key] = &[
    key("segments", Field::Segments, Kind::Records, "2.0", Rule::TopLevelKeys, Error),
    key("device_traces", Field::DeviceTraces, Kind::Traces, "2.0", Rule::TopLevelKeys, Error),
    without_field("allocator_settings", Kind::Dict, "2.3", Rule::Settings, Pytorch),
    key(
        "external_annotations",
        Field::ExternalAnnotations,
        Kind::Records,
        "2.5",
        Rule::TopLevelKeys,
        Pytorch,
    ),
    key("host_segments", Field::HostSegments, Kind::Records, "2.14", Rule::TopLevelKeys, Pytorch),
    key("host_traces", Field::HostTraces, Kind::Records, "2.14", Rule::TopLevelKeys, Pytorch),
];

/// A segment's keys without a stack: `frames` before `blocks` (`docs/snapshot-format.md` 1.2).
pub const SEGMENT: &[Key] = &[
    key("device", Field::Device, Kind::Int, "2.0", Rule::TraceForEveryDevice, Error),
    number("address", Field::Address, Kind::Count, "2.0"),
    number("total_size", Field::TotalSize, Kind::Count, "2.0"),
    number("allocated_size", Field::AllocatedSize, Kind::Count, "2.0"),
    number("active_size", Field::ActiveSize, Kind::Count, "2.0"),
    number("requested_size", Field::RequestedSize, Kind::Count, "2.1"),
    number("stream", Field::Stream, Kind::Int, "2.0"),
    key(
        "segment_type",
        Field::SegmentType,
        Kind::OneOf("\"small\" and \"large\""),
        "2.0",
        Rule::Granularity,
        Pytorch,
    ),
    key("segment_pool_id", Field::SegmentPoolId, Kind::Pool, "2.1", Rule::SegmentKeys, Pytorch),
    key("is_expandable", Field::IsExpandable, Kind::Bool, "2.1", Rule::SegmentKeys, Pytorch),
    frames("2.1"),
    key("blocks", Field::Blocks, Kind::Records, "2.0", Rule::SegmentKeys, Error),
    FORWARD_FRAMES,
];

/// A block's keys (`docs/snapshot-format.md` 1.3).
pub const BLOCK: &[Key] = &[
    number("address", Field::Address, Kind::Count, "2.1"),
    number("size", Field::Size, Kind::Count, "2.0"),
    number("requested_size", Field::RequestedSize, Kind::Count, "2.1"),
    key(
        "state",
        Field::State,
        Kind::OneOf("active_allocated, active_pending_free and inactive"),
        "2.0",
        Rule::BlockState,
        Error,
    ),
    frames("2.1"),
    FORWARD_FRAMES,
];

/// A trace entry's keys in the order of PyTorch's Python writer (`docs/snapshot-format.md` 1.5).
pub const ENTRY: &[Key] = &[
    key("action", Field::Action, Kind::OneOf("the ten actions"), "2.0", Rule::Action, Error),
    number("addr", Field::Addr, Kind::Count, "2.0"),
    number("device_free", Field::DeviceFree, Kind::Count, "2.0"),
    number("size", Field::Size, Kind::Count, "2.0"),
    number("stream", Field::Stream, Kind::Int, "2.0"),
    number("time_us", Field::TimeUs, Kind::Int, "2.2"),
    without_field("compile_context", Kind::Text, "2.8", Rule::KeyOrder, Pytorch),
    without_field("user_metadata", Kind::Text, "2.10", Rule::KeyOrder, Pytorch),
    without_field("internal_metadata", Kind::Text, "2.15", Rule::KeyOrder, Pytorch),
    without_field("pool_id", Kind::Pair, "2.12", Rule::KeyOrder, Pytorch),
    frames("2.0"),
    FORWARD_FRAMES,
];

/// A frame's keys (`docs/snapshot-format.md` 1.4).
pub const FRAME: &[Key] = &[
    key("name", Field::Name, Kind::Name, "2.0", Rule::Frames, Error),
    key("filename", Field::Filename, Kind::Name, "2.0", Rule::Frames, Error),
    key("line", Field::Line, Kind::Line, "2.0", Rule::Frames, Error),
];

/// An annotation's keys (`docs/snapshot-format.md` 1.7).
pub const ANNOTATION: &[Key] = &[
    key("stage", Field::Stage, Kind::Name, "2.5", Rule::Annotations, Pytorch),
    key("name", Field::Name, Kind::Name, "2.5", Rule::Annotations, Pytorch),
    key("device", Field::Device, Kind::Int, "2.5", Rule::Annotations, Pytorch),
    key("time_us", Field::TimeUs, Kind::Int, "2.5", Rule::Annotations, Pytorch),
];

/// The field of a key; `None` if the key is unknown or has none.
pub fn field_of(keys: &[Key], name: &str) -> Option<Field> {
    keys.iter().find(|key| key.name == name)?.field
}

/// The key of a field; empty if the record lacks it.
pub fn name_of(keys: &[Key], field: Field) -> &'static str {
    keys.iter().find(|key| key.field == Some(field)).map_or("", |key| key.name)
}

/// The names of known keys, in PyTorch's order.
pub fn names(keys: &'static [Key]) -> impl Iterator<Item = &'static str> + Clone {
    keys.iter().map(|key| key.name)
}

/// The keys that are fields, in PyTorch's order.
pub fn fields(keys: &'static [Key]) -> impl Iterator<Item = (&'static str, Field)> {
    keys.iter().filter_map(|key| Some((key.name, key.field?)))
}
