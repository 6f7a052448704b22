//! Which keys a record may have, and what one shape says about every record that shares it.
//!
//! A million entries share a handful of shapes, so that all that depends on
//! keys alone is worked out once a shape.

use super::{
    Severity,
    values::{Walk, key_fault},
};
use crate::snapshot::{Field, Shape, ShapeId, Snapshot, Value};

/// What a key's value has to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// An integer of at least 0.
    Count,
    /// An integer.
    Int,
    /// One of the given texts, which a field holds.
    OneOf(&'static str),
    /// A field of another type, in words.
    Other(&'static str),
    /// A text without a field.
    Text,
    /// A list of texts without a field.
    Texts,
    /// Two integers without a field.
    Pair,
}

/// A known key: its field, its type, and how bad a value of another type is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    name: &'static str,
    field: Option<Field>,
    kind: Kind,
    rule: u8,
    severity: Severity,
}

const fn key(name: &'static str, field: Field, kind: Kind, rule: u8, severity: Severity) -> Key {
    Key { name, field: Some(field), kind, rule, severity }
}

const fn loose(name: &'static str, kind: Kind, rule: u8, severity: Severity) -> Key {
    Key { name, field: None, kind, rule, severity }
}

const FRAMES: Key =
    key("frames", Field::Frames, Kind::Other("a list of dicts with str keys"), 16, Severity::Error);
const STREAM: Key = key("stream", Field::Stream, Kind::Int, 4, Severity::Error);
const SIZE: Key = key("size", Field::Size, Kind::Count, 4, Severity::Error);
const ADDRESS: Key = key("address", Field::Address, Kind::Count, 4, Severity::Error);
const REQUESTED: Key = key("requested_size", Field::RequestedSize, Kind::Count, 4, Severity::Error);
const FORWARD_FRAMES: Key = loose("forward_frames", Kind::Texts, 16, Severity::Error);

/// A trace entry's keys in the order of PyTorch's Python writer (snapshot-format.md 1.5).
pub(super) const ENTRY: &[Key] = &[
    key("action", Field::Action, Kind::OneOf("the ten actions"), 17, Severity::Error),
    key("addr", Field::Addr, Kind::Count, 4, Severity::Error),
    key("device_free", Field::DeviceFree, Kind::Count, 4, Severity::Error),
    SIZE,
    STREAM,
    key("time_us", Field::TimeUs, Kind::Int, 4, Severity::Error),
    loose("compile_context", Kind::Text, 31, Severity::Pytorch),
    loose("user_metadata", Kind::Text, 31, Severity::Pytorch),
    loose("internal_metadata", Kind::Text, 31, Severity::Pytorch),
    loose("pool_id", Kind::Pair, 31, Severity::Pytorch),
    FRAMES,
    FORWARD_FRAMES,
];

/// A segment's keys without a stack: `frames` before `blocks` (snapshot-format.md 1.2).
pub(super) const SEGMENT: &[Key] = &[
    key("device", Field::Device, Kind::Int, 2, Severity::Error),
    ADDRESS,
    key("total_size", Field::TotalSize, Kind::Count, 4, Severity::Error),
    key("allocated_size", Field::AllocatedSize, Kind::Count, 4, Severity::Error),
    key("active_size", Field::ActiveSize, Kind::Count, 4, Severity::Error),
    REQUESTED,
    STREAM,
    key("segment_type", Field::SegmentType, Kind::OneOf("\"small\" and \"large\""), 15, Severity::Pytorch),
    key(
        "segment_pool_id",
        Field::SegmentPoolId,
        Kind::Other("a tuple of two ints of at least 0"),
        8,
        Severity::Pytorch,
    ),
    key("is_expandable", Field::IsExpandable, Kind::Other("a bool"), 8, Severity::Pytorch),
    FRAMES,
    key("blocks", Field::Blocks, Kind::Other("a list of dicts with str keys"), 8, Severity::Error),
    FORWARD_FRAMES,
];

/// A block's keys (snapshot-format.md 1.3).
pub(super) const BLOCK: &[Key] = &[
    ADDRESS,
    SIZE,
    REQUESTED,
    key(
        "state",
        Field::State,
        Kind::OneOf("active_allocated, active_pending_free and inactive"),
        12,
        Severity::Error,
    ),
    FRAMES,
    FORWARD_FRAMES,
];

/// A frame's keys (snapshot-format.md 1.4).
pub(super) const FRAME: &[Key] = &[
    key("name", Field::Name, Kind::Other("a str"), 16, Severity::Error),
    key("filename", Field::Filename, Kind::Other("a str"), 16, Severity::Error),
    key("line", Field::Line, Kind::Other("an int of at least 0"), 16, Severity::Error),
];

/// An annotation's keys (snapshot-format.md 1.7).
pub(super) const ANNOTATION: &[Key] = &[
    key("stage", Field::Stage, Kind::Other("a str"), 34, Severity::Pytorch),
    key("name", Field::Name, Kind::Other("a str"), 34, Severity::Pytorch),
    key("device", Field::Device, Kind::Int, 34, Severity::Pytorch),
    key("time_us", Field::TimeUs, Kind::Int, 34, Severity::Pytorch),
];

/// Something wrong that every record of a shape shares.
#[derive(Debug)]
pub(super) struct Issue {
    pub(super) rule: u8,
    pub(super) severity: Severity,
    pub(super) what: String,
}

impl Issue {
    pub(super) fn new(rule: u8, severity: Severity, what: String) -> Issue {
        Issue { rule, severity, what }
    }
}

/// What one shape says about its records.
#[derive(Debug)]
pub(super) struct Facts {
    fields: u32,
    misfits: u32,
    pub(super) issues: Box<[Issue]>,
}

impl Facts {
    /// Whether the key is there with a value of its type.
    pub(super) fn has(&self, field: Field) -> bool {
        self.fields & bit(field) != 0
    }

    /// Whether the key is there, with whatever value.
    pub(super) fn has_key(&self, field: Field) -> bool {
        !self.lacks(field)
    }

    /// Whether the action is a text that no release writes; viewers pass over it.
    pub(super) fn is_unknown_action(&self) -> bool {
        self.issues.iter().any(|issue| issue.rule == 17 && issue.severity == Severity::Warning)
    }

    /// Whether the key is missing: a value of the wrong type is an issue already.
    pub(super) fn lacks(&self, field: Field) -> bool {
        (self.fields | self.misfits) & bit(field) == 0
    }
}

fn bit(field: Field) -> u32 {
    1 << (field as u32)
}

/// The facts of every shape that one kind of record uses, each worked out once.
#[derive(Debug)]
pub(super) struct Table<'a> {
    snapshot: &'a Snapshot,
    keys: &'static [Key],
    facts: Vec<Option<Facts>>,
    /// For a record whose number is of another snapshot: it has no keys.
    stray: Facts,
    walk: Walk,
}

impl<'a> Table<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, keys: &'static [Key]) -> Table<'a> {
        let facts = std::iter::repeat_with(|| None).take(snapshot.shapes.len()).collect();
        let stray = Facts { fields: 0, misfits: 0, issues: Box::default() };
        Table { snapshot, keys, facts, stray, walk: Walk::default() }
    }

    pub(super) fn facts(&mut self, id: ShapeId) -> &Facts {
        let Some(slot) = self.facts.get_mut(id.0 as usize) else { return &self.stray };
        slot.get_or_insert_with(|| facts(self.snapshot.shapes.get(id), self.keys, &mut self.walk))
    }
}

/// The shape of a record, if its number is of this snapshot.
pub(super) fn shape_of(snapshot: &Snapshot, id: ShapeId) -> Option<&Shape> {
    ((id.0 as usize) < snapshot.shapes.len()).then(|| snapshot.shapes.get(id))
}

fn facts(shape: &Shape, keys: &[Key], walk: &mut Walk) -> Facts {
    let (mut fields, mut misfits, mut issues) = (0, 0, Vec::new());
    for (name, slot) in &shape.slots {
        if let Some(fault) = key_fault(name) {
            issues.push(Issue::new(6, Severity::Error, format!("{name:?} {fault}")));
        }
        let value = match slot {
            crate::snapshot::Slot::Field(field) => {
                fields |= bit(*field);
                continue;
            }
            crate::snapshot::Slot::Value(value) => value,
        };
        let n_before = issues.len();
        if let Some(key) = keys.iter().find(|key| key.name == &**name) {
            misfits |= key.field.map_or(0, bit);
            issues.extend(key.issue(value, shape));
        }
        if issues.len() == n_before {
            walk.check(name, value, &mut issues);
        }
    }
    Facts { fields, misfits: misfits & !fields, issues: issues.into() }
}

impl Key {
    /// What is wrong with a value that did not become a field.
    fn issue(&self, value: &Value, shape: &Shape) -> Option<Issue> {
        let name = self.name;
        let kind = value.kind();
        let what = match (self.kind, value) {
            (Kind::Text, Value::Text(_)) => return None,
            (Kind::Texts, Value::List(all)) if all.iter().all(|one| one.as_text().is_some()) => return None,
            (Kind::Pair, Value::Tuple(two)) if two.len() == 2 && two.iter().all(is_int) => return None,
            // Of `addr` and `device_free` only the first has a field; rule 18 speaks of the other.
            (Kind::Count, Value::Int(0..)) if self.is_second_address(shape) => return None,
            (Kind::Count | Kind::Int, Value::Big(_)) => {
                format!("`{name}` is {kind}: viewers make a BigInt of it and throw")
            }
            (Kind::Count, Value::Int(int)) => {
                format!("`{name}` is {int}, which is negative; addresses and sizes are not")
            }
            (Kind::Count | Kind::Int, _) => format!("`{name}` is {kind} where an int is meant"),
            (Kind::OneOf(all), Value::Text(text)) => return Some(self.unknown_text(text, all)),
            (Kind::OneOf(all), _) => format!("`{name}` is {kind}, not one of {all}"),
            (Kind::Other(meant), _) => format!("`{name}` is {kind}; {meant} is meant"),
            (Kind::Text, _) => format!("`{name}` is {kind}, PyTorch writes a str"),
            (Kind::Texts, _) => format!("`{name}` is {kind}, not a list of str"),
            (Kind::Pair, _) => format!("`{name}` is {kind}, PyTorch writes a tuple of two ints"),
        };
        Some(Issue::new(self.rule, self.severity, what))
    }

    fn is_second_address(&self, shape: &Shape) -> bool {
        let other = match self.field {
            Some(Field::Addr) => Field::DeviceFree,
            Some(Field::DeviceFree) => Field::Addr,
            _ => return false,
        };
        shape.has(other)
    }

    fn unknown_text(&self, text: &str, all: &str) -> Issue {
        let name = self.name;
        match (name, text) {
            ("action", _) => Issue::new(
                17,
                Severity::Warning,
                format!("unknown action {text:?}: viewers list it and leave it out of every picture"),
            ),
            ("state", "active_awaiting_free") => Issue::new(
                12,
                Severity::Error,
                format!(
                    "{text:?} stands in PyTorch's documentation, but its dumps and readers say \
                     \"active_pending_free\"; write that"
                ),
            ),
            _ => Issue::new(self.rule, self.severity, format!("`{name}` is {text:?}, not one of {all}")),
        }
    }
}

fn is_int(value: &Value) -> bool {
    value.as_int().is_some()
}

/// Whether the known keys of a shape come in this order; others may stand anywhere.
pub(super) fn is_ordered<'a>(shape: &Shape, order: impl Iterator<Item = &'a str> + Clone) -> bool {
    let places = shape.slots.iter().filter_map(|(name, _)| order.clone().position(|known| known == &**name));
    places.is_sorted()
}

/// The names of known keys, in PyTorch's order.
pub(super) fn names(keys: &'static [Key]) -> impl Iterator<Item = &'static str> + Clone {
    keys.iter().map(|key| key.name)
}

/// The key of a field.
pub(super) fn name_of(keys: &'static [Key], field: Field) -> &'static str {
    keys.iter().find(|key| key.field == Some(field)).map_or("", |key| key.name)
}

/// The missing ones of some keys, for a message.
pub(super) fn missing(keys: &'static [Key], facts: &Facts, wanted: &[Field]) -> Option<String> {
    let lacking = wanted.iter().filter(|field| facts.lacks(**field));
    let names: Vec<String> = lacking.map(|field| format!("`{}`", name_of(keys, *field))).collect();
    (!names.is_empty()).then(|| names.join(", "))
}
