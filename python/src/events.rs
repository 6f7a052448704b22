//! The events of a snapshot as rows.

#![forbid(unsafe_code)]

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use memreel_snapshot::{Action, Snapshot, model::TraceEntry};

use crate::{
    columns::{batch, coded, few_texts, schema},
    table::Rows,
};

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    Arc::new(schema(&[
        ("device", DataType::Int32),
        ("event", DataType::UInt64),
        ("time_us", DataType::Int64),
        ("action", few_texts()),
        ("address", DataType::UInt64),
        ("size_bytes", DataType::UInt64),
        ("stream", DataType::Int64),
        ("scope", few_texts()),
        ("stack", DataType::UInt32),
    ]))
});

/// A row for each event: device by device, oldest first. Those of pinned host memory, device -1, are the last.
pub(crate) struct Events {
    snapshot: Arc<Snapshot>,
    actions: Arc<StringArray>,
    /// The text of each shape's scope, and for each shape its number there.
    scopes: Arc<StringArray>,
    scope_of_shape: Vec<Option<u32>>,
}

impl Events {
    pub(crate) fn new(snapshot: Arc<Snapshot>) -> Events {
        let actions = Arc::new(Action::ALL.iter().map(|action| Some(action.name())).collect());
        let (mut texts, mut numbers) = (Vec::<&str>::new(), HashMap::<&str, u32>::new());
        let mut scope_of_shape = Vec::new();
        for (_, shape) in snapshot.shapes.iter() {
            let text = shape.user_metadata().filter(|text| !text.is_empty());
            scope_of_shape.push(text.map(|text| {
                *numbers.entry(text).or_insert_with(|| {
                    texts.push(text);
                    texts.len() as u32 - 1
                })
            }));
        }
        let scopes = Arc::new(StringArray::from(texts));
        Events { snapshot, actions, scopes, scope_of_shape }
    }

    /// The traces with their devices.
    fn traces(&self) -> impl Iterator<Item = (i32, &[TraceEntry])> {
        let of_devices =
            self.snapshot.device_traces.iter().zip(0..).map(|(trace, device)| (device, &trace[..]));
        of_devices.chain([(-1, &self.snapshot.host_traces[..])])
    }

    /// Returns the device, the number on it and the entry of the rows from `start`, at most `n` of them.
    fn rows(&self, start: usize, n: usize) -> Vec<(i32, u64, &TraceEntry)> {
        let (mut rows, mut skip) = (Vec::with_capacity(n), start);
        for (device, trace) in self.traces() {
            let from = skip.min(trace.len());
            skip -= from;
            let room = n - rows.len();
            let numbered = trace[from..].iter().zip(from as u64..).take(room);
            rows.extend(numbered.map(|(entry, event)| (device, event, entry)));
        }
        rows
    }
}

impl Rows for Events {
    fn schema(&self) -> SchemaRef {
        SCHEMA.clone()
    }

    fn n_rows(&self) -> usize {
        self.snapshot.n_events()
    }

    fn batch(&self, start: usize, n: usize) -> Result<RecordBatch, ArrowError> {
        let rows = self.rows(start, n);
        let action = |entry: &TraceEntry| entry.action.map(|action| action as u32);
        let scope = |entry: &TraceEntry| self.scope_of_shape.get(entry.shape.index()).copied().flatten();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from_iter_values(rows.iter().map(|(device, _, _)| *device))),
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|(_, event, _)| *event))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, _, entry)| entry.time_us))),
            coded(rows.iter().map(|(_, _, entry)| action(entry)), &self.actions)?,
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|(_, _, entry)| entry.address.0))),
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|(_, _, entry)| entry.size))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, _, entry)| entry.stream.0))),
            coded(rows.iter().map(|(_, _, entry)| scope(entry)), &self.scopes)?,
            Arc::new(
                rows.iter()
                    .map(|(_, _, entry)| entry.stack.map(|stack| stack.index() as u32))
                    .collect::<UInt32Array>(),
            ),
        ];
        batch(&SCHEMA, columns)
    }
}
