//! How a table is read by DataFusion: which files, which columns and which rows reach the engine.

mod file_list;
mod filter;
mod problems;
mod provider;
mod reading;
mod rows_file;
mod scan;

pub(crate) use problems::{Problem, Problems};
pub(crate) use provider::FleetTable;
pub(crate) use scan::Scan;
