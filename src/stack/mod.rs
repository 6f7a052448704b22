//! A stack is captured now, as numbers, and gets its names later.

mod capture;
mod symbolize;
mod table;

pub(crate) use capture::capture;
pub(crate) use symbolize::{Symbol, Symbolizer};
pub(crate) use table::StackTable;
