//! The plan that reads a table, partition by partition of a list of files.

use std::{fmt, sync::Arc};

use datafusion::{
    common::{internal_err, tree_node::TreeNodeRecursion},
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::EquivalenceProperties,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
        execution_plan::{Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions},
        metrics::{ExecutionPlanMetricsSet, MetricsSet},
        stream::RecordBatchReceiverStreamBuilder,
    },
};
use tokio::sync::Semaphore;

use super::{problems::Problems, reading::Reading};
use crate::{
    columns::Table,
    sink::{Counters, Wanted},
    tables::At,
};

/// How many batches a file may be ahead of the engine.
const N_AHEAD: usize = 2;

/// Reads a table of the files whose addresses its input has.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) table: Table,
    pub(crate) at: Option<At>,
    /// What is read of the files.
    pub(crate) wanted: Arc<Wanted>,
    /// How many files the table has; the input has those that can have wanted rows.
    pub(crate) n_all: usize,
    input: Arc<dyn ExecutionPlan>,
    problems: Arc<Problems>,
    turns: Arc<Semaphore>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl Scan {
    /// Returns the scan of a [`file_list`](super::file_list::file_list). At most `n_at_once` files are open at a time.
    pub(crate) fn new(
        (table, at): (Table, Option<At>),
        (input, n_all): (Arc<dyn ExecutionPlan>, usize),
        wanted: Arc<Wanted>,
        problems: Arc<Problems>,
        n_at_once: usize,
    ) -> Scan {
        let properties = properties(&wanted, &input);
        let turns = Arc::new(Semaphore::new(n_at_once.max(1)));
        let metrics = ExecutionPlanMetricsSet::new();
        Scan { table, at, wanted, n_all, input, problems, turns, properties, metrics }
    }
}

fn properties(wanted: &Wanted, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(wanted.schema.clone()),
        Partitioning::UnknownPartitioning(input.properties().output_partitioning().partition_count()),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

impl DisplayAs for Scan {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wanted { columns, conditions, limit, .. } = &*self.wanted;
        write!(f, "MemreelScan: table={}", self.table.name())?;
        write!(f, ", columns=[{}]", columns.join(", "))?;
        if let Some(at) = self.at {
            write!(f, ", at={at:?}")?;
        }
        if !conditions.is_empty() {
            let texts: Vec<String> =
                conditions.iter().map(|condition| condition.expression.to_string()).collect();
            write!(f, ", conditions=[{}]", texts.join(", "))?;
        }
        if let Some(limit) = limit {
            write!(f, ", limit={limit}")?;
        }
        write!(f, ", of {} files", self.n_all)
    }
}

impl ExecutionPlan for Scan {
    fn name(&self) -> &'static str {
        "MemreelScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    /// A file is not read faster if the list of files is spread.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        look: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for condition in &self.wanted.conditions {
            if look(&condition.expression)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("a scan of memreel has one list of files");
        };
        Ok(Arc::new(Scan {
            table: self.table,
            at: self.at,
            wanted: self.wanted.clone(),
            n_all: self.n_all,
            properties: properties(&self.wanted, &input),
            input,
            problems: self.problems.clone(),
            turns: self.turns.clone(),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let files = self.input.execute(partition, context)?;
        let reading = Reading {
            table: self.table,
            at: self.at,
            wanted: self.wanted.clone(),
            problems: self.problems.clone(),
            counters: Counters::new(&self.metrics, partition),
            turns: self.turns.clone(),
        };
        let mut stream = RecordBatchReceiverStreamBuilder::new(self.wanted.schema.clone(), N_AHEAD);
        let sender = stream.tx();
        stream.spawn(reading.run(files, sender));
        Ok(stream.build())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
