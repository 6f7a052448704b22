//! What addresses are called: which libraries were where is noted while they are captured, names are read later.
//!
//! `modules.rs` keeps a map of what was loaded when, as often as a stack is new
//! or a snapshot is taken; so a library that is gone by then keeps its names.
//! A snapshot asks `symbolize.rs`, which reads each module's files once, if
//! they are still those that were loaded.

mod debug_file;
mod demangle;
mod identity;
mod image;
mod loader;
mod modules;
mod symbol_table;
mod symbolize;
mod target;
mod texts;
mod trim;

#[cfg(test)]
mod against_backtrace;
#[cfg(test)]
mod broken_files;
#[cfg(test)]
#[path = "../../../tests/it/library.rs"]
mod library;

pub use symbolize::name_addresses;

pub(super) use modules::note;
pub(crate) use symbolize::{Symbol, Symbolizer};

use super::TABLE_FULL;
