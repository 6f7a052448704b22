//! Why a request failed: the reason, what would have helped, and what holds the memory.
//!
//! The program's command `memreel oom`, the text of [`OutOfMemory`](crate::OutOfMemory) and the files beside a snapshot
//! of a failed request are made of an [`Explanation`].
#![forbid(unsafe_code)]

mod cause;
mod explanation;
mod fit;
mod reason;
mod record;
mod report;
mod text;
mod tried;

pub use cause::{Cause, CauseKind};
pub use explanation::Explanation;
pub use fit::Fit;
pub use report::{OomReport, Verdict, asked_for_addresses};
pub use tried::{Served, Tried, TriedSetting};
