//! What a partition has read, as metrics of the plan: `EXPLAIN ANALYZE` prints them.

use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder};

/// The counter of files that were opened.
pub(crate) const FILES_READ: &str = "files_read";

/// The counter of files that could not be read.
pub(crate) const FILES_BROKEN: &str = "files_broken";

/// The counters of one partition.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    /// Files that were opened.
    pub(crate) files: Count,
    /// Files that could not be read.
    pub(crate) broken: Count,
    /// Bytes of the files that were opened; of Parquet those of the columns that were read.
    pub(crate) bytes: Count,
    /// Events that were decoded for rows or figures.
    pub(crate) events: Count,
    /// Texts that were made of stacks, for the columns `stack`, `site` and `owner`.
    pub(crate) stack_texts: Count,
    /// The bytes of these texts.
    pub(crate) stack_text_bytes: Count,
    /// Rows that a filter of the reader dropped.
    pub(crate) dropped_rows: Count,
    pub(crate) baseline: BaselineMetrics,
    metrics: ExecutionPlanMetricsSet,
    partition: usize,
}

impl Counters {
    pub(crate) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Counters {
        let counter = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        Counters {
            files: counter(FILES_READ),
            broken: counter(FILES_BROKEN),
            bytes: counter("bytes_read"),
            events: counter("events_decoded"),
            stack_texts: counter("stack_texts_made"),
            stack_text_bytes: counter("stack_text_bytes"),
            dropped_rows: counter("rows_dropped"),
            baseline: BaselineMetrics::new(metrics, partition),
            metrics: metrics.clone(),
            partition,
        }
    }

    /// Counts a problem under a name of its own: counters are what a scheduler gets of an executor.
    pub(crate) fn problem(&self, name: String) {
        MetricBuilder::new(&self.metrics).counter(name, self.partition).add(1);
    }
}
