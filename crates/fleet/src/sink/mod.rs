//! Where the rows of a file go: conditions drop rows first, and the columns of the others are made and sent.

mod condition;
mod counters;

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, RecordBatch, RecordBatchOptions},
        datatypes::SchemaRef,
    },
    error::{DataFusionError, Result},
    physical_plan::metrics::RecordOutput,
};
use memreel_snapshot::{Snapshot, model::Value};
use tokio::sync::mpsc::Sender;

pub(crate) use condition::Condition;
use condition::{is_of_file, of_file};
pub(crate) use counters::{Counters, FILES_BROKEN, FILES_READ};

use crate::{
    columns::{Rows, Texts, typed},
    files::SourceFile,
};

/// Why the reading of a file ended before its end.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The file is not readable; the query goes on without it.
    Broken(String),
    /// The query failed, or nothing more is wanted.
    Query(Option<DataFusionError>),
}

impl Stopped {
    pub(crate) fn broken(error: &impl fmt::Display) -> Stopped {
        Stopped::Broken(error.to_string())
    }
}

impl From<DataFusionError> for Stopped {
    fn from(error: DataFusionError) -> Stopped {
        Stopped::Query(Some(error))
    }
}

/// What a query wants of a table.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The columns of the result.
    pub(crate) columns: Vec<&'static str>,
    pub(crate) texts: Texts,
    pub(crate) schema: SchemaRef,
    /// The conditions that rows must meet.
    pub(crate) conditions: Vec<Condition>,
    /// How many rows are enough.
    pub(crate) limit: Option<usize>,
    /// The rows of a batch.
    pub(crate) batch_rows: usize,
}

/// Takes the rows of one file.
pub(crate) struct Sink<'s> {
    file: &'s SourceFile,
    wanted: &'s Wanted,
    sender: &'s Sender<Result<RecordBatch>>,
    pub(crate) counters: &'s Counters,
    rank: Option<i64>,
    n_sent: usize,
}

impl<'s> Sink<'s> {
    pub(crate) fn new(
        file: &'s SourceFile,
        wanted: &'s Wanted,
        sender: &'s Sender<Result<RecordBatch>>,
        counters: &'s Counters,
    ) -> Sink<'s> {
        Sink { file, wanted, sender, counters, rank: file.rank, n_sent: 0 }
    }

    /// Takes the rank from the file, if its path names none.
    pub(crate) fn learn(&mut self, head: &Snapshot) {
        let in_settings = || head.allocator_settings().and_then(|settings| settings.get("rank"));
        let value = head.shape.value("rank").or_else(in_settings);
        self.rank = self.rank.or_else(|| value.and_then(Value::as_int));
    }

    /// Returns whether a column is of the result.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.wanted.columns.contains(&name)
    }

    /// Takes rows.
    ///
    /// # Errors
    /// Nothing more is wanted, or a condition failed.
    pub(crate) fn take<R: Rows>(&mut self, rows: &R, all: Vec<R::Row>) -> Result<(), Stopped> {
        for some in all.chunks(self.wanted.batch_rows) {
            let kept = self.keep(rows, some)?;
            if !kept.is_empty() {
                let columns = self.wanted.columns.iter().map(|name| self.column(rows, name, &kept)).collect();
                self.send(columns, kept.len())?;
            }
        }
        Ok(())
    }

    fn column<R: Rows>(&self, rows: &R, name: &str, some: &[R::Row]) -> ArrayRef {
        match is_of_file(name) {
            true => of_file(name, self.file, self.rank, some.len()),
            false => rows.column(name, some),
        }
    }

    /// Returns the rows that meet all conditions.
    fn keep<R: Rows>(&self, rows: &R, some: &[R::Row]) -> Result<Vec<R::Row>, Stopped> {
        let mut kept = some.to_vec();
        for condition in &self.wanted.conditions {
            if kept.is_empty() {
                break;
            }
            let columns = condition.columns.iter().map(|name| self.column(rows, name, &kept)).collect();
            let holds = condition.holds(columns, kept.len())?;
            let mut at = 0;
            kept.retain(|_| {
                at += 1;
                holds.value(at - 1)
            });
        }
        self.counters.dropped_rows.add(some.len() - kept.len());
        Ok(kept)
    }

    fn send(&mut self, columns: Vec<ArrayRef>, n_rows: usize) -> Result<(), Stopped> {
        let options = RecordBatchOptions::new().with_row_count(Some(n_rows));
        let columns = typed(columns, &self.wanted.schema)?;
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.wanted.schema), columns, &options)
            .map_err(DataFusionError::from)?;
        self.n_sent += n_rows;
        let batch = batch.record_output(&self.counters.baseline);
        // The receiver is gone when the query has what it needs.
        self.sender.blocking_send(Ok(batch)).map_err(|_| Stopped::Query(None))?;
        match self.wanted.limit {
            Some(limit) if self.n_sent >= limit => Err(Stopped::Query(None)),
            _ => Ok(()),
        }
    }
}
