//! What is done for a failed request: its files, its turn, and the verdict beside them.
#![forbid(unsafe_code)]

pub(in crate::trigger) mod files;
pub(in crate::trigger) mod on_oom;
pub(in crate::trigger) mod turn;
pub(in crate::trigger) mod verdict;
