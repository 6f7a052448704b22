//! What a partition has read, as metrics of the plan: `EXPLAIN ANALYZE` prints them.

use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder};

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
    /// Rows that a filter of the reader dropped.
    pub(crate) dropped_rows: Count,
    pub(crate) baseline: BaselineMetrics,
}

impl Counters {
    pub(crate) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Counters {
        let counter = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        Counters {
            files: counter("files_read"),
            broken: counter("files_broken"),
            bytes: counter("bytes_read"),
            events: counter("events_decoded"),
            stack_texts: counter("stack_texts_made"),
            dropped_rows: counter("rows_dropped"),
            baseline: BaselineMetrics::new(metrics, partition),
        }
    }
}
