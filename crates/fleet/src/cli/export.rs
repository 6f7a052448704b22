//! `memreel-fleet export`: every table of every file, as a folder of Parquet files.

use std::{
    fs::{create_dir_all, remove_file},
    path::{Path, PathBuf},
    sync::Arc,
};

use datafusion::error::DataFusionError;
use futures::{StreamExt, TryStreamExt, stream};

use super::{
    args::ExportOptions,
    exit::{Exit, Failure},
    output::{beside, parquet_writer, whole},
    progress::Progress,
};
use crate::{
    Fleet,
    columns::Table,
    files::{Content, NO_RANK, SourceFile, escaped, export_name},
};

pub(super) async fn run(options: &ExportOptions) -> Result<Exit, Failure> {
    let fleet = Arc::new(Fleet::open(&options.urls).await?);
    let progress = Progress::of(&fleet, 1);
    let snapshots: Vec<_> =
        fleet.files().iter().filter(|file| file.content == Content::Snapshot).cloned().collect();
    if snapshots.is_empty() {
        return Err(Failure::usage("no pickles or tapes to export"));
    }
    let n_at_once = std::thread::available_parallelism().map_or(1, usize::from);
    let n_written: Vec<usize> = stream::iter(snapshots)
        .map(|file| {
            let (fleet, folder) = (fleet.clone(), options.parquet.clone());
            async move { export(&fleet, &file, &folder).await }
        })
        .buffer_unordered(n_at_once)
        .try_collect()
        .await?;
    drop(progress);
    fleet.problems().iter().for_each(|line| eprintln!("memreel-fleet: {line}"));
    if fleet.are_all_broken() {
        return Err(Failure::unreadable("no file could be read"));
    }
    let n_files: usize = n_written.iter().sum();
    let n_exported = n_written.iter().filter(|n| **n > 0).count();
    eprintln!("memreel-fleet: {n_files} files of {n_exported} snapshots in {}", options.parquet.display());
    Ok(Exit::Fine)
}

/// Writes the tables of one snapshot; returns how many files they are, 0 if the snapshot is broken.
async fn export(fleet: &Fleet, file: &Arc<SourceFile>, folder: &Path) -> Result<usize, Failure> {
    let mut written = Vec::new();
    for table in Table::ALL {
        let before = fleet.is_broken(file);
        let (path, rows) = rows(fleet, table, file, folder).await?;
        if before || fleet.is_broken(file) {
            // A snapshot is in the folder with all of its tables, or not at all.
            written.iter().for_each(|path: &PathBuf| drop(remove_file(path)));
            return Ok(0);
        }
        whole(rows, &path)?;
        written.push(path);
    }
    Ok(written.len())
}

/// Writes the rows of a table to a file that has no name yet; returns its path too.
async fn rows(
    fleet: &Fleet,
    table: Table,
    file: &Arc<SourceFile>,
    folder: &Path,
) -> Result<(PathBuf, tempfile::NamedTempFile), Failure> {
    let mut batches = fleet.rows_of(table, file)?.execute_stream().await?;
    let schema = batches.schema();
    let first = batches.try_next().await?;
    let rank = match &first {
        // The file itself may name its rank.
        Some(batch) => rank_of(batch),
        None => file.rank,
    };
    let path = path(folder, table, file, rank);
    let parent = path.parent().unwrap_or(folder);
    create_dir_all(parent)
        .map_err(|error| Failure::unreadable(format!("cannot write {}: {error}", parent.display())))?;
    let mut writer = parquet_writer(beside(&path)?, &schema)?;
    let mut next = first;
    while let Some(batch) = next {
        writer.write(&batch).map_err(DataFusionError::from)?;
        next = batches.try_next().await?;
    }
    Ok((path, writer.into_inner().map_err(DataFusionError::from)?))
}

fn rank_of(batch: &datafusion::arrow::array::RecordBatch) -> Option<i64> {
    use datafusion::arrow::{array::AsArray, datatypes::Int64Type};
    let ranks = batch.column_by_name("rank")?.as_primitive::<Int64Type>();
    ranks.iter().next().flatten()
}

/// Returns `TABLE/job=JOB/rank=RANK/NAME-HASH.parquet`.
fn path(folder: &Path, table: Table, file: &SourceFile, rank: Option<i64>) -> PathBuf {
    let job = file.job.as_deref().map_or_else(|| NO_RANK.to_owned(), escaped);
    let rank = rank.map_or_else(|| NO_RANK.to_owned(), |rank| rank.to_string());
    folder
        .join(table.name())
        .join(format!("job={job}"))
        .join(format!("rank={rank}"))
        .join(export_name(&file.file))
}
