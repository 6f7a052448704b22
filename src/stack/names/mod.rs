//! Names the addresses of stacks when a snapshot is taken.
//!
//! `symbolize.rs` reads the files of each module once, if they are still the build that was loaded. `modules/`
//! remembers which modules were loaded when a stack was captured, so a library that was unloaded since keeps its names.

mod debug_file;
mod demangle;
mod image;
mod kept;
mod missing;
mod past;
mod shared;
mod symbol;
mod symbol_table;
mod symbolize;
mod target;
mod texts;
mod trim;

#[cfg(test)]
mod tests;

pub use symbolize::name_addresses;

pub(crate) use kept::with_kept_names;
pub(crate) use past::Past;
pub(crate) use shared::SharedNames;
pub(crate) use symbol::Symbol;
pub(crate) use symbolize::Symbolizer;
