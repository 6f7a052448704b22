//! The files of a fleet: which ones the URLs of a command line name, and how each is read.

mod address;
mod glob;
mod labels;
mod listing;
mod opened;
mod ranges;
mod store;
mod file;

pub(crate) use address::usage;
pub use file::{Content, SourceFile};
pub(crate) use labels::{NO_RANK, escaped, export_name};
pub use listing::{NoFiles, list};
pub(crate) use opened::{Fetched, Opened};
pub(crate) use ranges::Ranges;
