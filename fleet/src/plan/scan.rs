//! The plan that reads a table: a partition for each file, or of very many files for some.

use std::{fmt, sync::Arc};

use datafusion::{
    common::tree_node::TreeNodeRecursion,
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::EquivalenceProperties,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
        execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions},
        metrics::{ExecutionPlanMetricsSet, MetricsSet},
        stream::RecordBatchReceiverStreamBuilder,
    },
};
use tokio::sync::Semaphore;

use super::{counters::Counters, problems::Problems, reading::Reading, sink::Wanted};
use crate::{
    files::SourceFile,
    tables::{At, Table},
};

/// How many batches a file may be ahead of the engine.
const N_AHEAD: usize = 2;

/// The engine keeps some 30 kB for each partition of a plan, so from this number of files on several share one.
const MAX_PARTITIONS: usize = 256;

/// Reads a table of files.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) table: Table,
    pub(super) at: Option<At>,
    /// The files of each partition; files that cannot have wanted rows are in none.
    partitions: Vec<Arc<[Arc<SourceFile>]>>,
    n_files: usize,
    /// How many files the table has.
    n_all: usize,
    wanted: Arc<Wanted>,
    problems: Arc<Problems>,
    turns: Arc<Semaphore>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl Scan {
    pub(super) fn new(
        (table, at): (Table, Option<At>),
        (files, n_all): (Vec<Arc<SourceFile>>, usize),
        wanted: Wanted,
        problems: Arc<Problems>,
        n_at_once: usize,
    ) -> Scan {
        let n_files = files.len();
        let n_each = n_files.div_ceil(MAX_PARTITIONS).max(1);
        let partitions: Vec<Arc<[_]>> = files.chunks(n_each).map(Arc::from).collect();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(wanted.schema.clone()),
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Scan {
            table,
            at,
            partitions,
            n_files,
            n_all,
            wanted: Arc::new(wanted),
            problems,
            turns: Arc::new(Semaphore::new(n_at_once.max(1))),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for Scan {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wanted { columns, conditions, limit, .. } = &*self.wanted;
        write!(f, "MemreelScan: table={}", self.table.name())?;
        write!(f, ", files={} of {}, columns=[{}]", self.n_files, self.n_all, columns.join(", "))?;
        if let Some(at) = self.at {
            write!(f, ", at={at:?}")?;
        }
        if !conditions.is_empty() {
            let texts: Vec<String> =
                conditions.iter().map(|condition| condition.expression.to_string()).collect();
            write!(f, ", conditions=[{}]", texts.join(", "))?;
        }
        limit.map_or(Ok(()), |limit| write!(f, ", limit={limit}"))
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
        Vec::new()
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
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let reading = Reading {
            table: self.table,
            at: self.at,
            files: self.partitions[partition].clone(),
            wanted: self.wanted.clone(),
            problems: self.problems.clone(),
            counters: Counters::new(&self.metrics, partition),
            turns: self.turns.clone(),
        };
        let mut stream = RecordBatchReceiverStreamBuilder::new(self.wanted.schema.clone(), N_AHEAD);
        let sender = stream.tx();
        stream.spawn(reading.run(sender));
        Ok(stream.build())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
