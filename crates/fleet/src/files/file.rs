//! A file of a fleet: where it is, and what its path says about it.

use std::{fmt, sync::Arc};

use datafusion::error::Result;
use object_store::{ObjectStore, path::Path};

use super::{
    labels,
    store::{HERE, prefix_of, store_of},
};
use crate::columns::Table;

/// What a file has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// A pickle or a tape, which every table has rows of.
    Snapshot,
    /// The rows of one table, as `memreel-fleet export` writes them.
    Rows(Table),
}

/// A file of a fleet.
#[derive(Clone)]
pub struct SourceFile {
    /// Its address: the column `file`.
    pub file: String,
    /// The column `job`.
    pub job: Option<String>,
    /// The rank that its path names.
    pub rank: Option<i64>,
    /// What it has.
    pub content: Content,
    /// Its size.
    pub size_bytes: u64,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) path: Path,
    pub(crate) is_local: bool,
}

impl SourceFile {
    pub(super) fn new(
        file: String,
        size_bytes: u64,
        store: Arc<dyn ObjectStore>,
        path: Path,
        is_local: bool,
    ) -> SourceFile {
        let content = exported_table(&file).map_or(Content::Snapshot, Content::Rows);
        let (job, rank) = match content {
            Content::Snapshot => (labels::job(&file), labels::rank(&file)),
            Content::Rows(_) => labels::of_export(&file),
        };
        SourceFile { file, job, rank, content, size_bytes, store, path, is_local }
    }

    /// Returns the file of an address that [`list`](super::list) found, on this machine or on another one.
    pub(crate) fn at(file: String, size_bytes: u64) -> Result<SourceFile> {
        let prefix = prefix_of(&file);
        let (store, is_local) = (store_of(prefix)?, prefix == HERE);
        let path = Path::parse(&file[prefix.len()..])?;
        Ok(SourceFile::new(file, size_bytes, store, path, is_local))
    }

    /// Returns whether the file has rows of a table.
    pub(crate) fn has(&self, table: Table) -> bool {
        matches!(self.content, Content::Snapshot) || self.content == Content::Rows(table)
    }
}

impl fmt::Debug for SourceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceFile")
            .field("file", &self.file)
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}

/// Returns the table of a file that `memreel-fleet export` wrote: `…/TABLE/job=…/rank=…/….parquet`.
fn exported_table(file: &str) -> Option<Table> {
    let mut parts = file.strip_suffix(".parquet")?.rsplit('/').skip(1);
    let (rank, job, table) = (parts.next()?, parts.next()?, parts.next()?);
    let is_exported = rank.starts_with("rank=") && job.starts_with("job=");
    Table::ALL.into_iter().find(|known| is_exported && known.name() == table)
}
