//! Tests of rewriting: broken snapshots, repaired (`fix`); filtered recordings completed (`completed`); windows,
//! small blocks and frames removed (`slim`), the events that a window keeps of each
//! device (`windows`), with the stacks of blocks from before (`freed_stacks`); ranks in one file, devices in
//! several (`merge`).
#![forbid(unsafe_code)]

mod completed;
mod fix;
mod freed_stacks;
mod merge;
mod slim;
mod windows;
