//! The files of a fleet: which ones the URLs of a command line name, and how each is read.

mod address;
mod glob;
mod labels;
mod listing;
mod opened;
mod ranges;
mod refused;
mod store;
mod file;

pub use file::{Content, SourceFile};
pub(crate) use labels::{NO_RANK, escaped, export_name};
pub use listing::{NoFiles, list};
pub(crate) use opened::{Fetched, Opened};
pub(crate) use ranges::Ranges;
pub(crate) use refused::usage;
