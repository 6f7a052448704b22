//! The snapshots of many ranks as tables of DataFusion: SQL over paths, folders and addresses of object stores.
//!
//! [`Fleet`] lists the files and registers the tables; a file is a partition, and what a query does not need of it is
//! not computed.

#![forbid(unsafe_code)]

mod columns;
mod files;
mod sink;
mod tables;
mod plan;
mod functions;
mod cluster;
mod fleet;
pub mod cli;

pub use cluster::{ExecutorOptions, SchedulerOptions, run_executor, run_scheduler};
pub use columns::{Column, Kind, Table};
pub use files::{Content, NoFiles, SourceFile, list};
pub use fleet::Fleet;
pub use tables::page;
