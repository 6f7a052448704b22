//! The addresses of the files that a scan reads, as a plan: an engine of many machines hands each task some of its partitions,
//! as it does with any table in memory.

use std::sync::{Arc, LazyLock};

use datafusion::{
    arrow::{
        array::{ArrayRef, AsArray, RecordBatch, StringArray, UInt64Array},
        datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type},
    },
    datasource::memory::MemorySourceConfig,
    error::Result,
    physical_plan::ExecutionPlan,
};

use crate::files::SourceFile;

/// The engine keeps some 30 kB for each partition of a plan, so from this number of files on several share one.
const MAX_PARTITIONS: usize = 256;

/// Returns a plan that has the addresses of files: each file in a partition of its own, or of very many files some in each.
pub(super) fn file_list(files: &[Arc<SourceFile>]) -> Result<Arc<dyn ExecutionPlan>> {
    let n_each = files.len().div_ceil(MAX_PARTITIONS).max(1);
    let partitions: Vec<Vec<RecordBatch>> =
        files.chunks(n_each).map(|some| Ok(vec![batch(some)?])).collect::<Result<_>>()?;
    Ok(MemorySourceConfig::try_new_exec(&partitions, schema(), None)?)
}

/// Returns the files whose addresses are in a batch.
pub(super) fn files_of(batch: &RecordBatch) -> Result<Vec<SourceFile>> {
    let addresses = batch.column(0).as_string::<i32>();
    let sizes = batch.column(1).as_primitive::<UInt64Type>();
    let pairs = addresses.iter().zip(sizes.iter());
    pairs
        .map(|(file, size)| SourceFile::at(file.unwrap_or_default().to_owned(), size.unwrap_or_default()))
        .collect()
}

fn batch(files: &[Arc<SourceFile>]) -> Result<RecordBatch> {
    let addresses: StringArray = files.iter().map(|file| Some(&*file.file)).collect();
    let sizes: UInt64Array = files.iter().map(|file| Some(file.size_bytes)).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(addresses), Arc::new(sizes)];
    Ok(RecordBatch::try_new(schema(), columns)?)
}

fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        let address = Field::new("file", DataType::Utf8, false);
        Arc::new(Schema::new(vec![address, Field::new("size_bytes", DataType::UInt64, false)]))
    });
    Arc::clone(&SCHEMA)
}
