//! A table as DataFusion sees it.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    arrow::datatypes::SchemaRef,
    catalog::{Session, TableProvider},
    error::Result,
    logical_expr::{Expr, TableProviderFilterPushDown, TableType},
    physical_plan::{ExecutionPlan, empty::EmptyExec},
};

use super::{
    file_list::file_list,
    filter::{condition, is_for_reader},
    problems::Problems,
    scan::Scan,
};
use crate::{
    columns::{Column, Table, Texts, schema_of},
    files::SourceFile,
    sink::Wanted,
    tables::At,
};

/// A table over the files of a fleet.
#[derive(Clone, Debug)]
pub(crate) struct FleetTable {
    pub(crate) table: Table,
    /// The moment of `live_at` and `peak`, whose files are snapshots.
    pub(crate) at: Option<At>,
    pub(crate) texts: Texts,
    pub(crate) files: Vec<Arc<SourceFile>>,
    pub(crate) problems: Arc<Problems>,
}

#[async_trait]
impl TableProvider for FleetTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema(self.texts)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all: Vec<&Column> = self.table.columns().collect();
        let columns: Vec<&Column> =
            projection.map_or_else(|| all.clone(), |chosen| chosen.iter().map(|at| all[*at]).collect());
        let schema = schema_of(columns.iter().copied(), self.texts);
        let mut conditions = Vec::new();
        for filter in filters {
            conditions.push(condition(self.table, self.texts, filter, session)?);
        }
        let mut files = Vec::new();
        for file in &self.files {
            let mut may_hold = true;
            for condition in &conditions {
                may_hold = may_hold && condition.may_hold(file)?;
            }
            files.extend(may_hold.then(|| file.clone()));
        }
        if files.is_empty() {
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let config = session.config();
        let columns = columns.iter().map(|column| column.name).collect();
        let batch_rows = config.batch_size().max(1);
        let wanted = Arc::new(Wanted { columns, texts: self.texts, schema, conditions, limit, batch_rows });
        let n_at_once = config.target_partitions();
        let files = (file_list(&files)?, self.files.len());
        Ok(Arc::new(Scan::new((self.table, self.at), files, wanted, self.problems.clone(), n_at_once)))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match is_for_reader(self.table, filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }
}
