//! Why a request failed: the reason, what would have helped, and what holds the memory.
//!
//! A message in a log is explained by [`LoggedOom`], in the same words.
//!
//! The program's command `memreel oom`, the text of [`OutOfMemory`](crate::OutOfMemory) and the files next to a
//! snapshot of a failed request are created from an [`Explanation`].
#![forbid(unsafe_code)]

mod cause;
mod causes;
mod checkpoint;
mod elsewhere;
mod explanation;
mod fit;
mod grown;
mod held;
mod limit;
mod logged;
mod others;
mod pins;
mod places;
mod reason;
mod record;
mod report;
mod states;
mod text;
mod tried;
mod unusable;

pub use cause::{Cause, CauseKind};
pub use explanation::Explanation;
pub use fit::Fit;
pub use logged::LoggedOom;
pub use record::{OomRecord, OomRequest};
pub use report::{OomReport, Verdict, asked_for_addresses};
pub use tried::{Served, Tried, TriedSetting};
