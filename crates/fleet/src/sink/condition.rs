//! Conditions of a query that the reader checks: on whole files where it can, otherwise on rows before their costly columns are
//! made.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions},
        datatypes::SchemaRef,
    },
    error::Result,
    physical_plan::PhysicalExpr,
};

use crate::{
    columns::{OF_FILE, integers, same_text, typed},
    files::{Content, SourceFile},
};

/// A condition over some columns of a table.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    /// The names of its columns, in the order of `schema`.
    pub(crate) columns: Vec<&'static str>,
    pub(crate) expression: Arc<dyn PhysicalExpr>,
    /// That of its columns.
    pub(crate) schema: SchemaRef,
}

impl Condition {
    /// Returns which rows meet the condition, given its columns.
    pub(crate) fn holds(&self, columns: Vec<ArrayRef>, n_rows: usize) -> Result<BooleanArray> {
        let options = RecordBatchOptions::new().with_row_count(Some(n_rows));
        let columns = typed(columns, &self.schema)?;
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        let holds = self.expression.evaluate(&batch)?.into_array(n_rows)?;
        let holds = holds.as_boolean();
        Ok(match holds.null_count() {
            0 => holds.clone(),
            // Where a condition is null, it is not met.
            _ => holds.iter().map(|value| Some(value.unwrap_or(false))).collect(),
        })
    }

    /// Returns whether a file can have rows that meet the condition.
    pub(crate) fn may_hold(&self, file: &SourceFile) -> Result<bool> {
        let is_exported = file.content != Content::Snapshot;
        let is_known = |name: &str| match name {
            "job" => true,
            // A snapshot may name the rank that its path does not.
            "rank" => file.rank.is_some() || is_exported,
            // The rows of an export name the snapshot that they are from.
            "file" => !is_exported,
            _ => false,
        };
        if !self.columns.iter().all(|name| is_known(name)) {
            return Ok(true);
        }
        let columns = self.columns.iter().map(|name| of_file(name, file, file.rank, 1)).collect();
        Ok(self.holds(columns, 1)?.value(0))
    }
}

/// Returns a column that is the same in all rows of a file.
pub(crate) fn of_file(name: &str, file: &SourceFile, rank: Option<i64>, n_rows: usize) -> ArrayRef {
    match name {
        "job" => same_text(n_rows, file.job.as_deref()),
        "rank" => integers(&vec![(); n_rows], |()| rank),
        _ => same_text(n_rows, Some(&file.file)),
    }
}

/// Returns whether a name is of a column that is the same in all rows of a file.
pub(crate) fn is_of_file(name: &str) -> bool {
    OF_FILE.iter().any(|column| column.name == name)
}
