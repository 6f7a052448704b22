//! The response to a failed request: its files and its turn.
#![forbid(unsafe_code)]

pub(in crate::trigger) mod files;
pub(in crate::trigger) mod on_oom;
pub(in crate::trigger) mod turn;
