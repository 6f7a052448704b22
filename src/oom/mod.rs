//! Why a request failed: the reason, what would have helped, and what holds the memory.
//!
//! The program's command `memreel oom`, the text of [`OutOfMemory`](crate::OutOfMemory) and the files beside a snapshot
//! of a failed request are made of an [`Explanation`].
#![forbid(unsafe_code)]

mod expandable;
mod explanation;
mod record;
mod text;

pub use explanation::Explanation;
