//! Deserialises a snapshot element by element, so that only one segment or entry of JSON at a time is a tree of values.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, Error as _, IntoDeserializer, MapAccess, SeqAccess, Visitor},
};

use super::{
    Snapshot, TopLevel,
    json::Writer,
    parts::{NOT_A_SNAPSHOT, Parts, Table},
    records::{Annotation, Block, Segment, TraceEntry},
    shape::Slot,
    value::{Text, Value},
    value_reader::{BYTES_OF_CONTAINER, Budget, Within},
};

impl<'de> Deserialize<'de> for Snapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Snapshot, D::Error> {
        deserializer.deserialize_any(Top)
    }
}

struct Top;

impl<'de> Visitor<'de> for Top {
    type Value = Snapshot;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a snapshot")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Snapshot, A::Error> {
        let (mut parts, budget) = (Parts::default(), Budget::default());
        parts.snapshot.top_level = TopLevel::SegmentList;
        let mut records = Records { snapshot: &mut parts.snapshot, budget: &budget };
        while records.add(&mut seq, Table::Segments)? {}
        parts.complete().map_err(A::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Snapshot, A::Error> {
        let (mut parts, budget) = (Parts::default(), Budget::default());
        while let Some(key) = map.next_key_seed(Within(&budget))? {
            let key: &Text = key.as_text().ok_or_else(|| A::Error::custom(NOT_A_SNAPSHOT))?;
            let slot = match Table::of(key) {
                Some(table) => {
                    let records = Records { snapshot: &mut parts.snapshot, budget: &budget };
                    map.next_value_seed(OrValue(List { records, table }))?
                }
                None => Slot::Value(map.next_value_seed(Within(&budget))?),
            };
            parts.set(key, slot).map_err(A::Error::custom)?;
        }
        parts.complete().map_err(A::Error::custom)
    }
}

/// The records of a snapshot, each of which is a tree of values for a moment.
struct Records<'s> {
    snapshot: &'s mut Snapshot,
    budget: &'s Budget,
}

impl Records<'_> {
    /// Takes the next record of a list; returns the result of `take`, or `None` at the end.
    fn next<'de, A: SeqAccess<'de>, T>(
        &mut self,
        list: &mut A,
        take: impl FnOnce(&mut Snapshot, &Value) -> Result<T, String>,
    ) -> Result<Option<T>, A::Error> {
        let Records { snapshot, budget } = self;
        budget.mark();
        let Some(value) = list.next_element_seed(Within(budget))? else { return Ok(None) };
        let known = |snapshot: &Snapshot| (snapshot.shapes.len(), snapshot.stacks.all_frames().len());
        let before = known(snapshot);
        let taken = take(snapshot, &value).map_err(A::Error::custom)?;
        // Only shapes and frames keep values.
        if known(snapshot) == before {
            budget.give_back();
        }
        Ok(Some(taken))
    }

    /// Adds the next record of a list; returns whether there is one.
    fn add<'de, A: SeqAccess<'de>>(&mut self, list: &mut A, table: Table) -> Result<bool, A::Error> {
        let budget = self.budget;
        let mut n_bytes = 0;
        let added = self.next(list, |snapshot, element| {
            n_bytes = bytes_of_record(table, element);
            snapshot.add(table, element)
        })?;
        budget.take(n_bytes, 0)?;
        Ok(added.is_some())
    }
}

/// Returns the memory that a record takes when its values are dropped.
fn bytes_of_record(table: Table, record: &Value) -> usize {
    match (table, record) {
        (Table::Segments | Table::HostSegments, Value::Dict(pairs)) => {
            let is_blocks = |key: &Value| key.as_text().is_some_and(|key| &**key == "blocks");
            let blocks = pairs.iter().filter(|(key, _)| is_blocks(key));
            let n_blocks: usize = blocks.filter_map(|(_, all)| all.as_elements()).map(<[Value]>::len).sum();
            size_of::<Segment>() + n_blocks * size_of::<Block>()
        }
        (Table::ExternalAnnotations, _) => size_of::<Annotation>() + 2 * BYTES_OF_CONTAINER,
        _ => size_of::<TraceEntry>(),
    }
}

/// Takes a list while it is read; anything else becomes a value.
trait TakeList<'de>: Sized {
    type Taken;

    fn budget(&self) -> &Budget;

    fn list<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Taken, A::Error>;

    fn other(self, value: Value) -> Self::Taken;
}

/// A list of records at the top.
struct List<'s> {
    records: Records<'s>,
    table: Table,
}

impl<'de> TakeList<'de> for List<'_> {
    type Taken = Slot;

    fn budget(&self) -> &Budget {
        self.records.budget
    }

    fn list<A: SeqAccess<'de>>(self, mut list: A) -> Result<Slot, A::Error> {
        let List { mut records, table } = self;
        records.snapshot.clear(table);
        if table != Table::DeviceTraces {
            while records.add(&mut list, table)? {}
            return Ok(Slot::Field(table.field()));
        }
        let Records { snapshot, budget } = records;
        while let Some(other) = list.next_element_seed(OrValue(Trace(Records { snapshot, budget })))? {
            // A trace can be two brackets and a comma.
            budget.take(2 * size_of::<Vec<TraceEntry>>(), 3)?;
            let Some(other) = other else { continue };
            // A list with anything but traces is an unknown value.
            let writer = Writer::new(snapshot);
            let trace = |trace: &Vec<TraceEntry>| Value::List(writer.entry_values(trace).collect());
            let mut all: Vec<Value> = snapshot.device_traces.iter().map(trace).collect();
            all.push(other);
            while let Some(element) = list.next_element_seed(Within(budget))? {
                all.push(element);
            }
            snapshot.clear(table);
            return Ok(Slot::Value(Value::List(all.into())));
        }
        Ok(Slot::Field(table.field()))
    }

    fn other(self, value: Value) -> Slot {
        Slot::Value(value)
    }
}

/// The trace of a device; anything else is returned.
struct Trace<'s>(Records<'s>);

impl<'de> TakeList<'de> for Trace<'_> {
    type Taken = Option<Value>;

    fn budget(&self) -> &Budget {
        self.0.budget
    }

    fn list<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Option<Value>, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = self.0.next(&mut list, Snapshot::entry_from)? {
            self.0.budget.take(size_of::<TraceEntry>(), 0)?;
            entries.push(entry);
        }
        self.0.snapshot.device_traces.push(entries);
        Ok(None)
    }

    fn other(self, value: Value) -> Option<Value> {
        Some(value)
    }
}

/// Deserialises anything, as a list or as a value.
struct OrValue<T>(T);

impl<'de, T: TakeList<'de>> DeserializeSeed<'de> for OrValue<T> {
    type Value = T::Taken;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T::Taken, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: TakeList<'de>> OrValue<T> {
    /// Takes a value from its own deserialiser.
    fn simple<E: de::Error>(self, value: impl IntoDeserializer<'de, E>) -> Result<T::Taken, E> {
        Ok(self.0.other(Value::deserialize(value.into_deserializer())?))
    }
}

impl<'de, T: TakeList<'de>> Visitor<'de> for OrValue<T> {
    type Value = T::Taken;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of a snapshot")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<T::Taken, A::Error> {
        self.0.list(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T::Taken, A::Error> {
        let value = Within(self.0.budget()).visit_map(map)?;
        Ok(self.0.other(value))
    }

    fn visit_unit<E: de::Error>(self) -> Result<T::Taken, E> {
        Ok(self.0.other(Value::None))
    }

    fn visit_none<E: de::Error>(self) -> Result<T::Taken, E> {
        self.visit_unit()
    }

    fn visit_bool<E: de::Error>(self, bool: bool) -> Result<T::Taken, E> {
        self.simple(bool)
    }

    fn visit_i64<E: de::Error>(self, int: i64) -> Result<T::Taken, E> {
        self.simple(int)
    }

    fn visit_u64<E: de::Error>(self, int: u64) -> Result<T::Taken, E> {
        self.simple(int)
    }

    fn visit_f64<E: de::Error>(self, float: f64) -> Result<T::Taken, E> {
        self.simple(float)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T::Taken, E> {
        self.simple(text)
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<T::Taken, E> {
        Ok(self.0.other(Value::Bytes(bytes.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a file of entries, each with a list of lists that begins with a number.
    fn lists(n_entries: usize, n_lists: usize, number: impl Fn(usize) -> usize) -> String {
        let lists = ",[]".repeat(n_lists);
        let entry = |at| format!(r#"{{"action":"alloc","x":[{}{lists}]}}"#, number(at));
        let entries: Vec<String> = (0..n_entries).map(entry).collect();
        format!(r#"{{"segments":[],"device_traces":[[{}]]}}"#, entries.join(","))
    }

    fn is_refused(json: &str) -> bool {
        let read = serde_json::from_str::<Snapshot>(json);
        read.is_err_and(|error| error.to_string().contains("far more memory"))
    }

    #[test]
    fn values_of_many_records_take_memory_of_one_budget() {
        assert!(!is_refused(&lists(3, 60_000, |at| at)), "a few records are free");
        assert!(is_refused(&lists(20, 60_000, |at| at)), "each record is small enough");
        assert!(!is_refused(&lists(20, 60_000, |_| 0)), "values that are known are dropped");
    }

    #[test]
    fn records_without_keys_take_memory_too() {
        let records = ["{}"; 1_000_000].join(",");
        assert!(is_refused(&format!(r#"{{"device_traces":[],"segments":[{records}]}}"#)));
        assert!(is_refused(&format!(r#"{{"device_traces":[[{records}]],"segments":[]}}"#)));
        assert!(is_refused(&format!(r#"{{"external_annotations":[{records}],"segments":[]}}"#)));
    }

    /// A snapshot made of the whole tree of values must be the one that is made element by element.
    #[test]
    fn elements_give_what_the_whole_tree_gives() {
        let entry = r#"{"action": "alloc", "addr": 4096, "size": 512, "frames": [{"name": "f", "line": 3}]}"#;
        let segment = r#"{"address": 4096, "segment_pool_id": [0, 1], "blocks": [{"size": 512}]}"#;
        let cases = [
            format!("[{segment}, {segment}]"),
            format!(
                r#"{{"segments": [{segment}], "device_traces": [[{entry}], []], "x": [1, {{"y": 2.5}}]}}"#
            ),
            format!(r#"{{"device_traces": [[{entry}]], "z": null, "device_traces": [[], [{entry}]]}}"#),
            format!(r#"{{"segments": [{segment}], "device_traces": [[{entry}, {entry}], 5, [{entry}]]}}"#),
            r#"{"segments": "none", "device_traces": {"a": true}}"#.to_owned(),
            r#"{"segments": [], "device_traces": false, "host_traces": -1, "host_segments": 1.5}"#.to_owned(),
            format!(
                r#"{{"segments": [], "external_annotations": [{{"name": "s"}}], "host_traces": [{entry}]}}"#
            ),
        ];
        for json in cases {
            let text = |snapshot: Result<Snapshot, String>| match snapshot {
                Ok(snapshot) => serde_json::to_string(&snapshot).unwrap(),
                Err(error) => error,
            };
            let tree: Value = serde_json::from_str(&json).unwrap();
            let streamed = serde_json::from_str::<Snapshot>(&json);
            let streamed = text(streamed.map_err(|error| error.to_string()));
            let whole = text(Snapshot::from_value(&tree));
            assert!(
                streamed == whole || streamed.starts_with(&format!("{whole} at line")),
                "{streamed}\n{whole}"
            );
        }
    }
}
