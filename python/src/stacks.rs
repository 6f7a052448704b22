//! The stacks of a snapshot as rows: one for each frame of each stack.

#![forbid(unsafe_code)]

use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use memreel_snapshot::{
    Snapshot,
    model::{Frame, FrameIndex},
};

use crate::{
    columns::{batch, coded, few_texts, schema},
    table::Rows,
};

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    Arc::new(schema(&[
        ("stack", DataType::UInt32),
        ("depth", DataType::UInt32),
        ("function", few_texts()),
        ("file", few_texts()),
        ("line", DataType::UInt64),
    ]))
});

/// A row for each frame of each stack, innermost first; `stack` is the number used by events, blocks and segments.
pub(crate) struct Stacks {
    snapshot: Arc<Snapshot>,
    /// The first row of each stack, and then the number of rows.
    starts: Vec<usize>,
    /// The texts of each frame, by its number.
    functions: Arc<StringArray>,
    files: Arc<StringArray>,
}

impl Stacks {
    pub(crate) fn new(snapshot: Arc<Snapshot>) -> Stacks {
        let starts = std::iter::once(0)
            .chain(snapshot.stacks.all_stacks().scan(0, |sum, stack| {
                *sum += stack.len();
                Some(*sum)
            }))
            .collect();
        let texts = |text: fn(&Frame) -> &str| {
            Arc::new(snapshot.stacks.all_frames().map(|frame| Some(text(frame))).collect::<StringArray>())
        };
        let (functions, files) = (texts(|frame| &frame.name), texts(|frame| &frame.filename));
        Stacks { snapshot, starts, functions, files }
    }

    /// The stack, the depth and the frame of the rows from `start`, at most `n` of them.
    fn rows(&self, start: usize, n: usize) -> Vec<(u32, u32, FrameIndex)> {
        let first = self.starts.partition_point(|at| *at <= start).saturating_sub(1);
        let mut rows = Vec::with_capacity(n);
        for (stack, frames) in self.snapshot.stacks.all_stacks().enumerate().skip(first) {
            if rows.len() == n {
                break;
            }
            let from = start.saturating_sub(self.starts[stack]).min(frames.len());
            let room = n - rows.len();
            let numbered = frames.iter().enumerate().skip(from).take(room);
            rows.extend(numbered.map(|(depth, frame)| (stack as u32, depth as u32, *frame)));
        }
        rows
    }
}

impl Rows for Stacks {
    fn schema(&self) -> SchemaRef {
        SCHEMA.clone()
    }

    fn n_rows(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    fn batch(&self, start: usize, n: usize) -> Result<RecordBatch, ArrowError> {
        let rows = self.rows(start, n);
        let frame = |(_, _, frame): &(u32, u32, FrameIndex)| Some(frame.index() as u32);
        let line = |(_, _, frame): &(u32, u32, FrameIndex)| self.snapshot.stacks.frame(*frame).line;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|(stack, _, _)| *stack))),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|(_, depth, _)| *depth))),
            coded(rows.iter().map(frame), &self.functions)?,
            coded(rows.iter().map(frame), &self.files)?,
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(line))),
        ];
        batch(&SCHEMA, columns)
    }
}
