//! Broken rules of the format: what both the pickle reader and `validate` report.

mod broken;
mod report;
mod rule;
mod severity;

pub use broken::Finding;
pub(crate) use report::Report;
pub use rule::Rule;
pub use severity::Severity;
