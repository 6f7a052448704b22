//! The segments and blocks of a snapshot as rows.

#![forbid(unsafe_code)]

use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use memreel_snapshot::{
    Snapshot,
    model::{Block, Segment, StackIndex},
};

use crate::{
    columns::{batch, schema},
    table::Rows,
};

static SEGMENTS: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    Arc::new(schema(&[
        ("device", DataType::Int64),
        ("address", DataType::UInt64),
        ("size_bytes", DataType::UInt64),
        ("allocated_bytes", DataType::UInt64),
        ("active_bytes", DataType::UInt64),
        ("requested_bytes", DataType::UInt64),
        ("blocks", DataType::UInt64),
        ("stream", DataType::Int64),
        ("pool", DataType::Utf8),
        ("pool_graph", DataType::UInt64),
        ("pool_user", DataType::UInt64),
        ("is_expandable", DataType::Boolean),
        ("stack", DataType::UInt32),
    ]))
});

static BLOCKS: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    Arc::new(schema(&[
        ("device", DataType::Int64),
        ("segment", DataType::UInt64),
        ("address", DataType::UInt64),
        ("size_bytes", DataType::UInt64),
        ("requested_bytes", DataType::UInt64),
        ("state", DataType::Utf8),
        ("stream", DataType::Int64),
        ("stack", DataType::UInt32),
    ]))
});

fn numbers(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

fn stacks(values: impl Iterator<Item = Option<StackIndex>>) -> ArrayRef {
    Arc::new(values.map(|stack| stack.map(|stack| stack.index() as u32)).collect::<UInt32Array>())
}

/// The segments of a snapshot, those of pinned host memory behind the others.
fn segments(snapshot: &Snapshot) -> impl Iterator<Item = &Segment> {
    snapshot.segments.iter().chain(&snapshot.host_segments)
}

/// A row for each segment at the end.
pub(crate) struct Segments(pub(crate) Arc<Snapshot>);

impl Rows for Segments {
    fn schema(&self) -> SchemaRef {
        SEGMENTS.clone()
    }

    fn n_rows(&self) -> usize {
        segments(&self.0).count()
    }

    fn batch(&self, start: usize, n: usize) -> Result<RecordBatch, ArrowError> {
        let rows: Vec<&Segment> = segments(&self.0).skip(start).take(n).collect();
        let all = || rows.iter().copied();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(all().map(|segment| segment.device.0))),
            numbers(all().map(|segment| segment.address.0)),
            numbers(all().map(|segment| segment.total_size)),
            numbers(all().map(|segment| segment.allocated_size)),
            numbers(all().map(|segment| segment.active_size)),
            numbers(all().map(|segment| segment.requested_size)),
            numbers(all().map(|segment| segment.blocks.len() as u64)),
            Arc::new(Int64Array::from_iter_values(all().map(|segment| segment.stream.0))),
            Arc::new(all().map(|segment| segment.kind.map(|kind| kind.name())).collect::<StringArray>()),
            numbers(all().map(|segment| segment.pool.graph)),
            numbers(all().map(|segment| segment.pool.user)),
            Arc::new(all().map(|segment| Some(segment.is_expandable)).collect::<BooleanArray>()),
            stacks(all().map(|segment| segment.stack)),
        ];
        batch(&SEGMENTS, columns)
    }
}

/// A row for each block at the end, free ones included.
pub(crate) struct Blocks(pub(crate) Arc<Snapshot>);

impl Rows for Blocks {
    fn schema(&self) -> SchemaRef {
        BLOCKS.clone()
    }

    fn n_rows(&self) -> usize {
        segments(&self.0).map(|segment| segment.blocks.len()).sum()
    }

    fn batch(&self, start: usize, n: usize) -> Result<RecordBatch, ArrowError> {
        let (mut rows, mut skip) = (Vec::<(&Segment, &Block)>::with_capacity(n), start);
        for segment in segments(&self.0) {
            let from = skip.min(segment.blocks.len());
            skip -= from;
            let room = n - rows.len();
            rows.extend(segment.blocks[from..].iter().take(room).map(|block| (segment, block)));
        }
        let all = || rows.iter().copied();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(all().map(|(segment, _)| segment.device.0))),
            numbers(all().map(|(segment, _)| segment.address.0)),
            numbers(all().map(|(_, block)| block.address.0)),
            numbers(all().map(|(_, block)| block.size)),
            numbers(all().map(|(_, block)| block.requested_size)),
            Arc::new(all().map(|(_, block)| block.state.map(|state| state.name())).collect::<StringArray>()),
            Arc::new(Int64Array::from_iter_values(all().map(|(segment, _)| segment.stream.0))),
            stacks(all().map(|(_, block)| block.stack)),
        ];
        batch(&BLOCKS, columns)
    }
}
