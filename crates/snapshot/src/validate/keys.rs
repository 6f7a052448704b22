//! Computes facts about every record of one shape: its keys, and which of its values are wrong.
//!
//! A million entries share a few shapes, so whatever depends on keys alone is computed once for each
//! shape.

use super::{
    issue::Issue,
    values::{Walk, key_fault},
};
use crate::{
    model::{
        Field, Shape, ShapeId, Slot, Snapshot, Value,
        schema::{self, Key, Kind},
    },
    words::{Rule, Severity},
};

/// Facts about every record of a shape.
#[derive(Debug)]
pub(super) struct Facts {
    fields: u32,
    misfits: u32,
    pub(super) issues: Box<[Issue]>,
}

impl Facts {
    /// Returns whether the key has a value of its type.
    pub(super) fn has(&self, field: Field) -> bool {
        self.fields & bit(field) != 0
    }

    /// Returns whether the key exists, with any value.
    pub(super) fn has_key(&self, field: Field) -> bool {
        !self.lacks(field)
    }

    /// Returns whether the action is a text that no release writes; viewers skip it.
    pub(super) fn is_unknown_action(&self) -> bool {
        self.issues.iter().any(|issue| issue.rule == Rule::Action && issue.severity == Severity::Warning)
    }

    /// Returns whether the key is missing: a value of the wrong type is already an issue.
    pub(super) fn lacks(&self, field: Field) -> bool {
        (self.fields | self.misfits) & bit(field) == 0
    }
}

fn bit(field: Field) -> u32 {
    1 << (field as u32)
}

/// The facts of every shape that one kind of record uses, each computed once.
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

/// Whether a record has a key with a value of its type.
pub(super) fn has_field(snapshot: &Snapshot, id: ShapeId, field: Field) -> bool {
    shape_of(snapshot, id).is_some_and(|shape| shape.has(field))
}

/// The shape of a record, if its number is of this snapshot.
pub(super) fn shape_of(snapshot: &Snapshot, id: ShapeId) -> Option<&Shape> {
    ((id.0 as usize) < snapshot.shapes.len()).then(|| snapshot.shapes.get(id))
}

fn facts(shape: &Shape, keys: &[Key], walk: &mut Walk) -> Facts {
    let (mut fields, mut misfits, mut issues) = (0, 0, Vec::new());
    for (name, slot) in &shape.slots {
        if let Some(fault) = key_fault(name) {
            issues.push(Issue::new(Rule::Texts, Severity::Error, format!("{name:?} {fault}")));
        }
        let value = match slot {
            Slot::Field(field) => {
                fields |= bit(*field);
                continue;
            }
            Slot::Value(value) => value,
        };
        let n_before = issues.len();
        if let Some(key) = keys.iter().find(|key| key.name == &**name) {
            misfits |= key.field.map_or(0, bit);
            issues.extend(issue(key, value, shape));
        }
        // An error on the value covers what is wrong inside it; a lesser finding does not.
        if issues[n_before..].iter().all(|issue| issue.severity != Severity::Error) {
            walk.check(name, value, &mut issues);
        }
    }
    Facts { fields, misfits: misfits & !fields, issues: issues.into() }
}

/// Returns the error in a value that did not become a field.
fn issue(key: &Key, value: &Value, shape: &Shape) -> Option<Issue> {
    let name = key.name;
    let kind = value.kind();
    let what = match (key.kind, value) {
        (Kind::Text, Value::Text(_)) => return None,
        (Kind::Texts, Value::List(all)) if all.iter().all(|one| one.as_text().is_some()) => return None,
        (Kind::Pair, Value::Tuple(two)) if two.len() == 2 && two.iter().all(is_int) => return None,
        // Of `addr` and `device_free` only the first has a field; rule 18 is about the other.
        (Kind::Count, Value::Int(0..)) if is_second_address(key, shape) => return None,
        (Kind::Count | Kind::Int, Value::Big(_)) => {
            format!("`{name}` is {kind}; viewers turn it into a BigInt and throw an error")
        }
        (Kind::Count, Value::Int(int)) => {
            format!("`{name}` is {int}, but addresses and sizes cannot be negative")
        }
        (Kind::Count | Kind::Int, _) => format!("`{name}` is {kind}; expected an int"),
        (Kind::OneOf(all), Value::Text(text)) => return Some(unknown_text(key, text, all)),
        (Kind::OneOf(all), _) => format!("`{name}` is {kind}; expected one of {all}"),
        (Kind::Text | Kind::Name, _) => format!("`{name}` is {kind}; expected a str"),
        (Kind::Texts, _) => unlike(name, kind, "a list", "str"),
        (Kind::Pair, _) => unlike(name, kind, "a tuple", "two ints"),
        (Kind::Bool, _) => format!("`{name}` is {kind}; expected a bool"),
        (Kind::Pool, _) => unlike(name, kind, "a tuple", "two non-negative ints"),
        (Kind::Line, Value::Int(-1)) => return None,
        (Kind::Line, Value::Int(int)) => format!("`{name}` is {int}, but lines cannot be negative"),
        (Kind::Line, _) => format!("`{name}` is {kind}; expected a non-negative int"),
        (Kind::Records | Kind::Traces, _) => unlike(name, kind, "a list", "dicts with str keys"),
        (Kind::Dict, _) => format!("`{name}` is {kind}; expected a dict"),
    };
    Some(Issue::new(key.rule, key.severity, what))
}

/// Describes a value that is not a container of these elements.
fn unlike(name: &str, kind: &str, container: &str, elements: &str) -> String {
    if kind == container {
        format!("`{name}` is {kind}, but not of {elements}")
    } else {
        format!("`{name}` is {kind}; expected {container} of {elements}")
    }
}

fn is_second_address(key: &Key, shape: &Shape) -> bool {
    match key.field {
        Some(Field::Addr) => shape.has(Field::DeviceFree),
        Some(Field::DeviceFree) => shape.has(Field::Addr),
        _ => false,
    }
}

fn unknown_text(key: &Key, text: &str, all: &str) -> Issue {
    match (key.name, text) {
        ("action", _) => Issue::new(
            Rule::Action,
            Severity::Warning,
            format!(
                "`action` is {text:?}, which is not one of {all}; viewers list the entry but do not plot it"
            ),
        ),
        ("state", "active_awaiting_free") => Issue::new(
            Rule::BlockState,
            Severity::Error,
            format!(
                "`state` is {text:?}, which appears only in PyTorch's documentation; its snapshots and readers use \
                 \"active_pending_free\", so write that instead"
            ),
        ),
        (name, _) => {
            Issue::new(key.rule, key.severity, format!("`{name}` is {text:?}; expected one of {all}"))
        }
    }
}

fn is_int(value: &Value) -> bool {
    value.as_int().is_some()
}

/// Returns whether the known keys of a shape come in this order; others may be anywhere.
pub(super) fn is_ordered<'a>(shape: &Shape, order: impl Iterator<Item = &'a str> + Clone) -> bool {
    let places = shape.slots.iter().filter_map(|(name, _)| order.clone().position(|known| known == &**name));
    places.is_sorted()
}

/// Returns a message with the names of those of some keys that are missing, and what `uses` them, such as "PyTorch
/// writes"; `None` if none is missing.
pub(super) fn missing(keys: &[Key], facts: &Facts, wanted: &[Field], uses: &str) -> Option<String> {
    let lacking = wanted.iter().filter(|field| facts.lacks(**field));
    let names: Vec<String> = lacking.map(|field| format!("`{}`", schema::name_of(keys, *field))).collect();
    let (last, others) = names.split_last()?;
    Some(match others {
        [] => format!("{last} is missing; {uses} it"),
        _ => format!("{} and {last} are missing; {uses} them", others.join(", ")),
    })
}
