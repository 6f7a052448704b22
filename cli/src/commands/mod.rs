//! The commands, one a file.

#![forbid(unsafe_code)]

pub(crate) mod at;
pub(crate) mod churn;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod diff;
pub(crate) mod fix;
pub(crate) mod fragmentation;
pub(crate) mod gate;
pub(crate) mod leaks;
pub(crate) mod man;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod merge;
pub(crate) mod oom;
pub(crate) mod owners;
pub(crate) mod ranks;
pub(crate) mod record;
pub(crate) mod recover;
pub(crate) mod replay;
pub(crate) mod segments;
pub(crate) mod slim;
pub(crate) mod split;
pub(crate) mod stats;
pub(crate) mod summary;
pub(crate) mod timeline;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod validate;
pub(crate) mod view;
