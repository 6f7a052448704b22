//! `Fleet`: the files of a command line, as tables of a session of DataFusion.

use std::sync::Arc;

use datafusion::{
    error::Result,
    execution::{SendableRecordBatchStream, context::SQLOptions},
    physical_plan::{ExecutionPlan, execute_stream},
    prelude::{DataFrame, SessionConfig, SessionContext},
};

use crate::{
    cluster::Cluster,
    columns::{Table, Texts},
    files::{SourceFile, list},
    functions::{LiveAt, Peak, all_functions},
    plan::{FleetTable, Problems},
};

/// The files of a fleet, with a session in which every [`Table`] of them is registered.
///
/// A file that cannot be read does not end a query: it is left out, and [`Fleet::problems`] names it.
pub struct Fleet {
    files: Vec<Arc<SourceFile>>,
    session: SessionContext,
    problems: Arc<Problems>,
    /// Where queries run, if not here.
    cluster: Option<Cluster>,
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

    /// Lists the files of addresses, of which a cluster's executors read each where it is: on disks that all machines see
    /// under one path, or in an object store. `scheduler` is an address such as `df://host:50050`.
    ///
    /// # Errors
    /// The errors of [`list`], or no scheduler answers.
    pub async fn open_on(scheduler: &str, addresses: &[String]) -> Result<Fleet> {
        let cluster = Cluster::parse(scheduler)?;
        let session = cluster.session().await?;
        Ok(Fleet::with(list(addresses).await?, session, Some(cluster)))
    }

    /// Takes files, and the settings of a session.
    #[must_use]
    pub fn of(files: Vec<SourceFile>, config: SessionConfig) -> Fleet {
        Fleet::with(files, SessionContext::new_with_config(config.with_information_schema(true)), None)
    }

    fn with(files: Vec<SourceFile>, session: SessionContext, cluster: Option<Cluster>) -> Fleet {
        let files: Vec<Arc<SourceFile>> = files.into_iter().map(Arc::new).collect();
        let fleet = Fleet { files, session, problems: Arc::default(), cluster };
        for table in Table::ALL {
            let provider = Arc::new(fleet.table(table));
            // The session is new, so no name is taken.
            let _ = fleet.session.register_table(table.name(), provider);
        }
        let allocations = fleet.table(Table::Allocations);
        fleet.session.register_udtf("live_at", Arc::new(LiveAt(allocations.clone())));
        fleet.session.register_udtf("peak", Arc::new(Peak(allocations)));
        all_functions().for_each(|function| fleet.session.register_udf((*function).clone()));
        fleet
    }

    fn table(&self, table: Table) -> FleetTable {
        let files = self.files.iter().filter(|file| file.has(table)).cloned().collect();
        let texts = if self.cluster.is_some() { Texts::Plain } else { Texts::Coded };
        FleetTable { table, at: None, texts, files, problems: self.problems.clone() }
    }

    /// Returns the files.
    #[must_use]
    pub fn files(&self) -> &[Arc<SourceFile>] {
        &self.files
    }

    /// Gives up a plan that runs on a cluster.
    pub(crate) async fn cancel(&self, plan: &Arc<dyn ExecutionPlan>) {
        if let Some(cluster) = &self.cluster {
            cluster.cancel(plan).await;
        }
    }

    /// Returns whether queries run on a cluster.
    pub(crate) fn is_remote(&self) -> bool {
        self.cluster.is_some()
    }

    /// Returns the session, for queries that are not text.
    #[must_use]
    pub fn session(&self) -> &SessionContext {
        &self.session
    }

    /// Plans a query. Only queries and `EXPLAIN` are accepted: nothing is created, changed or written.
    ///
    /// # Errors
    /// The text is not SQL, names what is not there, or would run on a cluster that does not answer its kind rightly.
    pub async fn sql(&self, text: &str) -> Result<DataFrame> {
        let options =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let query = self.session.sql_with_options(text, options).await?;
        let Some(cluster) = &self.cluster else { return Ok(query) };
        let optimised = self.session.state().optimize(query.logical_plan())?;
        match cluster.accept(query.logical_plan(), &optimised)? {
            true => Ok(query),
            // Such as `select 1`, or one whose condition is never met.
            false => Ok(DataFrame::new(SessionContext::new().state(), query.logical_plan().clone())),
        }
    }

    /// Runs a query, and returns its rows with the plan that makes them, for [`Fleet::learn`].
    ///
    /// # Errors
    /// Those of DataFusion.
    pub async fn run(&self, query: DataFrame) -> Result<(SendableRecordBatchStream, Arc<dyn ExecutionPlan>)> {
        let context = Arc::new(query.task_ctx());
        let plan = query.create_physical_plan().await?;
        Ok((execute_stream(plan.clone(), context)?, plan))
    }

    /// Learns from a plan whose rows were taken which problems executors found. What is read here is known already.
    pub async fn learn(&self, plan: &Arc<dyn ExecutionPlan>) {
        if let Some(cluster) = &self.cluster {
            cluster.learn(plan, &self.problems).await;
        }
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
