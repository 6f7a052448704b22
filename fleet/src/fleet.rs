//! `Fleet`: the files of a command line, as tables of a session of DataFusion.

use std::sync::Arc;

use datafusion::{
    error::Result,
    execution::context::SQLOptions,
    prelude::{DataFrame, SessionConfig, SessionContext},
};

use crate::{
    files::{SourceFile, list},
    functions::{LiveAt, Peak, stack_contains, top_frame},
    plan::{FleetTable, Problems},
    tables::Table,
};

/// The files of a fleet, with a session in which every [`Table`] of them is registered.
///
/// A file that cannot be read does not end a query: it is left out, and [`Fleet::problems`] names it.
pub struct Fleet {
    files: Vec<Arc<SourceFile>>,
    session: SessionContext,
    problems: Arc<Problems>,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("files", &self.files.len()).finish_non_exhaustive()
    }
}

impl Fleet {
    /// Lists the files of addresses: paths, folders, patterns, and URLs of object stores.
    ///
    /// # Errors
    /// Those of [`list`].
    pub async fn open(addresses: &[String]) -> Result<Fleet> {
        Ok(Fleet::of(list(addresses).await?, SessionConfig::new()))
    }

    /// Takes files, and the settings of a session.
    #[must_use]
    pub fn of(files: Vec<SourceFile>, config: SessionConfig) -> Fleet {
        let files: Vec<Arc<SourceFile>> = files.into_iter().map(Arc::new).collect();
        let problems = Arc::new(Problems::default());
        let session = SessionContext::new_with_config(config.with_information_schema(true));
        let fleet = Fleet { files, session, problems };
        for table in Table::ALL {
            let provider = Arc::new(fleet.table(table));
            // The session is new, so no name is taken.
            let _ = fleet.session.register_table(table.name(), provider);
        }
        let allocations = fleet.table(Table::Allocations);
        fleet.session.register_udtf("live_at", Arc::new(LiveAt(allocations.clone())));
        fleet.session.register_udtf("peak", Arc::new(Peak(allocations)));
        fleet.session.register_udf(stack_contains());
        fleet.session.register_udf(top_frame());
        fleet
    }

    fn table(&self, table: Table) -> FleetTable {
        let files = self.files.iter().filter(|file| file.has(table)).cloned().collect();
        FleetTable { table, at: None, files, problems: self.problems.clone() }
    }

    /// Returns the files.
    #[must_use]
    pub fn files(&self) -> &[Arc<SourceFile>] {
        &self.files
    }

    /// Returns the session, for queries that are not text.
    #[must_use]
    pub fn session(&self) -> &SessionContext {
        &self.session
    }

    /// Plans a query. Only queries and `EXPLAIN` are accepted: nothing is created, changed or written.
    ///
    /// # Errors
    /// The text is not SQL, or names what is not there.
    pub async fn sql(&self, text: &str) -> Result<DataFrame> {
        let options =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        self.session.sql_with_options(text, options).await
    }

    /// Returns a table with the rows of one file.
    ///
    /// # Errors
    /// Those of DataFusion.
    pub fn rows_of(&self, table: Table, file: &Arc<SourceFile>) -> Result<DataFrame> {
        let one = FleetTable { files: vec![file.clone()], ..self.table(table) };
        self.session.read_table(Arc::new(one))
    }

    /// Returns a line for each problem of the files that were read so far.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.problems.lines()
    }

    /// Returns whether a file was found to be broken.
    pub(crate) fn is_broken(&self, file: &SourceFile) -> bool {
        self.problems.is_broken(&file.file)
    }

    /// Returns whether files were read and every one of them is broken.
    #[must_use]
    pub fn are_all_broken(&self) -> bool {
        self.problems.are_all_broken()
    }

    /// Returns how many files were read so far.
    #[must_use]
    pub fn n_read(&self) -> usize {
        self.problems.n_files()
    }
}
