//! The functions that SQL has beside DataFusion's own.

mod moments;
mod stacks;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

pub(crate) use moments::{LiveAt, Peak};
use stacks::{stack_contains, top_frame};

/// Returns the functions of columns.
pub(crate) fn all_functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    [stack_contains(), top_frame()].into_iter().map(Arc::new)
}

/// The names of all functions, for suggestions.
pub(crate) const NAMES: [&str; 4] = ["live_at", "peak", "stack_contains", "top_frame"];
