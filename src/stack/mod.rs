//! A stack is captured now, as numbers, and gets its names later.

#[cfg(test)]
mod against_backtrace;
#[cfg(test)]
mod broken_files;
mod capture;
mod debug_file;
mod demangle;
mod identity;
mod image;
#[cfg(test)]
#[path = "../../tests/it/library.rs"]
mod library;
mod loader;
mod modules;
mod symbol_table;
mod symbolize;
mod table;
mod target;
mod texts;
mod trim;

pub(crate) use capture::capture;
pub(crate) use modules::note;
pub(crate) use symbolize::{Symbol, Symbolizer};
pub(crate) use table::StackTable;

/// The one address of the stack that a full table gives.
pub(crate) const TABLE_FULL: usize = 1;
