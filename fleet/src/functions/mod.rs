//! The functions that SQL has beside DataFusion's own.

mod moments;
mod stacks;

pub(crate) use moments::{LiveAt, Peak};
pub(crate) use stacks::{stack_contains, top_frame};

/// The names of all functions, for suggestions.
pub(crate) const NAMES: [&str; 4] = ["live_at", "peak", "stack_contains", "top_frame"];
