//! Builds a snapshot from plain values, element by element.

use super::{
    Snapshot, TopLevel,
    build::{self, Builder, MAX_RECORD_KEYS},
    field::Field,
    fields::Fill,
    records::{Annotation, Block, Segment, TraceEntry},
    shape::Slot,
    value::{Text, Value},
};
use crate::words::SeededMap;

pub(super) const NOT_A_SNAPSHOT: &str = "the top is neither a dict with text keys nor a list";

/// A snapshot whose parts are added one by one.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) snapshot: Snapshot,
    /// The place of each key of the top.
    places: SeededMap<Text, usize>,
}

impl Default for Parts {
    fn default() -> Self {
        Parts { snapshot: Snapshot::without_keys(), places: SeededMap::default() }
    }
}

impl Parts {
    /// Sets a top-level key: the last value wins and the first place remains, as in a Python dictionary.
    pub(super) fn set(&mut self, key: &Text, slot: Slot) -> Result<(), String> {
        let slots = &mut self.snapshot.shape.slots;
        match self.places.get(key) {
            Some(at) => slots[*at].1 = slot,
            None if slots.len() == MAX_RECORD_KEYS => {
                return Err(format!("the top is a dict with more than {MAX_RECORD_KEYS} keys"));
            }
            None => {
                self.places.insert(key.clone(), slots.len());
                slots.push((key.clone(), slot));
            }
        }
        Ok(())
    }

    /// Returns the snapshot, if it is one.
    pub(super) fn complete(self) -> Result<Snapshot, String> {
        let mut snapshot = self.snapshot;
        snapshot.complete_blocks();
        snapshot.unless_foreign()
    }
}

impl Snapshot {
    /// Builds a snapshot from plain values, such as JSON: where the format has
    /// tuples of two numbers, lists of two numbers count.
    ///
    /// # Errors
    /// A text that names the first part that is not a snapshot, or what the
    /// value seems to be instead.
    pub fn from_value(value: &Value) -> Result<Snapshot, String> {
        let mut parts = Parts::default();
        match value {
            Value::List(list) => {
                parts.snapshot.top_level = TopLevel::SegmentList;
                list.iter().try_for_each(|segment| parts.snapshot.add(Table::Segments, segment))?;
            }
            Value::Dict(pairs) => {
                for (key, value) in pairs.iter() {
                    let slot = parts.snapshot.take(key.as_text().ok_or(NOT_A_SNAPSHOT)?, value)?;
                    parts.set(key.as_text().ok_or(NOT_A_SNAPSHOT)?, slot)?;
                }
            }
            _ => return Err(NOT_A_SNAPSHOT.to_owned()),
        }
        parts.complete()
    }

    /// Adds the value of a top-level key.
    fn take(&mut self, key: &str, value: &Value) -> Result<Slot, String> {
        let (Some(table), Value::List(list)) = (Table::of(key), value) else {
            return Ok(Slot::Value(value.clone()));
        };
        if table == Table::DeviceTraces && list.iter().any(|trace| !matches!(trace, Value::List(_))) {
            return Ok(Slot::Value(value.clone()));
        }
        self.clear(table);
        list.iter().try_for_each(|element| self.add(table, element))?;
        Ok(Slot::Field(table.field()))
    }

    /// Empties a list that the file repeats.
    pub(super) fn clear(&mut self, table: Table) {
        match table {
            Table::Segments => self.segments.clear(),
            Table::HostSegments => self.host_segments.clear(),
            Table::DeviceTraces => self.device_traces.clear(),
            Table::HostTraces => self.host_traces.clear(),
            Table::ExternalAnnotations => self.external_annotations.clear(),
        }
    }

    /// Adds an element of a list: a segment, an annotation, or a trace with all its entries.
    pub(super) fn add(&mut self, table: Table, element: &Value) -> Result<(), String> {
        match table {
            Table::Segments => {
                let segment = self.segment_from(element)?;
                self.segments.push(segment);
            }
            Table::HostSegments => {
                let segment = self.segment_from(element)?;
                self.host_segments.push(segment);
            }
            Table::DeviceTraces => {
                let entries = element.as_elements().unwrap_or_default();
                let trace = entries.iter().map(|entry| self.entry_from(entry)).collect::<Result<_, _>>()?;
                self.device_traces.push(trace);
            }
            Table::HostTraces => {
                let entry = self.entry_from(element)?;
                self.host_traces.push(entry);
            }
            Table::ExternalAnnotations => {
                let annotation = self.record::<Annotation>(element, |_, _, _, _| false)?;
                self.external_annotations.push(annotation);
            }
        }
        Ok(())
    }

    fn segment_from(&mut self, value: &Value) -> Result<Segment, String> {
        self.record::<Segment>(value, |snapshot, builder, key, value| match (&**key, value) {
            ("blocks", Value::List(blocks)) => {
                let blocks: Result<Vec<_>, _> =
                    blocks.iter().map(|block| snapshot.record::<Block>(block, take_stack)).collect();
                blocks.map(|blocks| builder.set_blocks(key, blocks)).is_ok()
            }
            _ => take_stack(snapshot, builder, key, value),
        })
    }

    pub(super) fn entry_from(&mut self, value: &Value) -> Result<TraceEntry, String> {
        self.record::<TraceEntry>(value, take_stack)
    }

    /// One record; `special` takes the keys that need the snapshot's tables.
    fn record<R: Fill>(
        &mut self,
        value: &Value,
        special: impl Fn(&mut Snapshot, &mut Builder<R>, &Text, &Value) -> bool,
    ) -> Result<R, String> {
        let not_a_record = |what| format!("{what} is where a record should be");
        let mut builder = Builder::<R>::default();
        for (key, value) in build::text_pairs(value).map_err(not_a_record)? {
            if !special(self, &mut builder, key, value) {
                builder.set(key, with_tuples(key, value));
            }
        }
        Ok(builder.finish(&mut self.shapes))
    }
}

/// Takes the key `frames`, if its value is a stack. Returns whether it is.
fn take_stack<R: Fill>(snapshot: &mut Snapshot, builder: &mut Builder<R>, key: &Text, value: &Value) -> bool {
    let stack = (&**key == "frames")
        .then(|| build::stack(value, &mut snapshot.stacks, &mut snapshot.shapes))
        .flatten();
    stack.inspect(|stack| builder.set_stack(key, *stack)).is_some()
}

/// A list of records of the top.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Table {
    Segments,
    HostSegments,
    DeviceTraces,
    HostTraces,
    ExternalAnnotations,
}

impl Table {
    /// Returns the list of a key.
    pub(super) fn of(key: &str) -> Option<Table> {
        Some(match key {
            "segments" => Table::Segments,
            "host_segments" => Table::HostSegments,
            "device_traces" => Table::DeviceTraces,
            "host_traces" => Table::HostTraces,
            "external_annotations" => Table::ExternalAnnotations,
            _ => return None,
        })
    }

    pub(super) fn field(self) -> Field {
        match self {
            Table::Segments => Field::Segments,
            Table::HostSegments => Field::HostSegments,
            Table::DeviceTraces => Field::DeviceTraces,
            Table::HostTraces => Field::HostTraces,
            Table::ExternalAnnotations => Field::ExternalAnnotations,
        }
    }
}

/// JSON has no tuples; the two keys that hold one get it back.
fn with_tuples(key: &str, value: &Value) -> Value {
    match (key, value) {
        ("segment_pool_id" | "pool_id", Value::List(parts)) if parts.len() == 2 => {
            Value::Tuple(parts.clone())
        }
        _ => value.clone(),
    }
}
