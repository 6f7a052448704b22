//! How a table is read by DataFusion: which files, which columns and which rows reach the engine.

mod counters;
mod file_list;
mod filter;
mod problems;
mod provider;
mod reading;
mod rows_file;
mod scan;
mod sink;

pub(crate) use counters::{Counters, FILES_BROKEN, FILES_READ};
pub(crate) use filter::Condition;
pub(crate) use problems::{Problem, Problems};
pub(crate) use provider::FleetTable;
pub(crate) use scan::Scan;
pub(crate) use sink::{Sink, Stopped, Wanted};
