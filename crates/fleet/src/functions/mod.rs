//! The functions that SQL has beside DataFusion's own.

mod metadata;
mod moments;
mod stacks;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

use metadata::metadata;
pub(crate) use moments::{LiveAt, Peak};
use stacks::{stack_contains, top_frame};

/// Returns the functions of columns.
pub(crate) fn all_functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    [metadata(), stack_contains(), top_frame()].into_iter().map(Arc::new)
}

/// The names of all functions, for suggestions.
pub(crate) const NAMES: [&str; 5] = ["live_at", "metadata", "peak", "stack_contains", "top_frame"];
