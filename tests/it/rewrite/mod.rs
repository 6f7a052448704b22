//! Tests of rewriting: broken snapshots, repaired (`fix`); windows, small blocks and frames removed (`slim`); ranks
//! in one file, devices in several (`merge`). `recorded` makes the random recordings that they start from.
#![forbid(unsafe_code)]

mod fix;
mod merge;
pub(crate) mod recorded;
mod slim;
