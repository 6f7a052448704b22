//! The reading of a Parquet file that `memreel-fleet export` wrote: only the columns that are wanted, and those of conditions.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions},
        compute::{cast, filter_record_batch},
    },
    error::{DataFusionError, Result},
    parquet::arrow::{ParquetRecordBatchStreamBuilder, ProjectionMask},
    physical_plan::metrics::RecordOutput,
};
use futures::TryStreamExt;
use tokio::sync::mpsc::Sender;

use super::problems::Problems;
use crate::{
    columns::Table,
    files::{Content, Ranges, SourceFile},
    sink::{Counters, Stopped, Wanted},
};

/// Sends the rows of a file.
pub(super) async fn read(
    file: &Arc<SourceFile>,
    wanted: &Wanted,
    sender: &Sender<Result<RecordBatch>>,
    (counters, problems): (&Counters, &Problems),
) -> Result<(), Stopped> {
    let Content::Rows(table) = file.content else { return Ok(()) };
    let broken = |error: &dyn std::fmt::Display| Stopped::Broken(error.to_string());
    let reader = Ranges { file: Arc::clone(file), n_bytes: counters.bytes.clone() };
    let builder = ParquetRecordBatchStreamBuilder::new(reader).await.map_err(|error| broken(&error))?;
    problems.read(&file.file);
    let names: Vec<&str> = wanted
        .conditions
        .iter()
        .flat_map(|condition| condition.columns.iter().copied())
        .chain(wanted.columns.iter().copied())
        .collect();
    let mask = ProjectionMask::columns(builder.parquet_schema(), names.iter().copied());
    let mut batches = builder
        .with_projection(mask)
        .with_batch_size(wanted.batch_rows)
        .build()
        .map_err(|error| broken(&error))?;
    let mut n_sent = 0;
    while let Some(batch) = batches.try_next().await.map_err(|error| broken(&error))? {
        let rows = answer(&batch, table, wanted, counters)?;
        if rows.num_rows() == 0 {
            continue;
        }
        n_sent += rows.num_rows();
        let rows = rows.record_output(&counters.baseline);
        let is_enough = wanted.limit.is_some_and(|limit| n_sent >= limit);
        if sender.send(Ok(rows)).await.is_err() || is_enough {
            return Err(Stopped::Query(None));
        }
    }
    Ok(())
}

/// Returns the rows that meet the conditions, with the wanted columns.
fn answer(
    batch: &RecordBatch,
    table: Table,
    wanted: &Wanted,
    counters: &Counters,
) -> Result<RecordBatch, Stopped> {
    let mut kept = batch.clone();
    for condition in &wanted.conditions {
        let columns = condition
            .columns
            .iter()
            .map(|name| column(&kept, table, wanted, name))
            .collect::<Result<_, _>>()?;
        let holds: BooleanArray = condition.holds(columns, kept.num_rows())?;
        kept = filter_record_batch(&kept, &holds).map_err(DataFusionError::from)?;
    }
    counters.dropped_rows.add(batch.num_rows() - kept.num_rows());
    let columns = wanted
        .columns
        .iter()
        .map(|name| column(&kept, table, wanted, name))
        .collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(kept.num_rows()));
    let rows = RecordBatch::try_new_with_options(Arc::clone(&wanted.schema), columns, &options);
    Ok(rows.map_err(DataFusionError::from)?)
}

/// Returns a column in the table's type; another writer may have chosen a different one.
fn column(batch: &RecordBatch, table: Table, wanted: &Wanted, name: &str) -> Result<ArrayRef, Stopped> {
    let kind = table.column(name).map(|column| column.kind.data_type(wanted.texts));
    let (Some(found), Some(kind)) = (batch.column_by_name(name), kind) else {
        return Err(Stopped::Broken(format!("it has no column {name}")));
    };
    cast(found, &kind).map_err(|error| Stopped::broken(&error))
}
