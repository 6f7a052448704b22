//! The input of commands: files, folders, patterns, runs, tapes and logs, and answers for each of them.

#![forbid(unsafe_code)]

pub(crate) mod each;
pub(crate) mod files;
pub(crate) mod folded;
pub(crate) mod lazy;
pub(crate) mod log_file;
mod opened;
mod opener;
pub(crate) mod own_memory;
pub(crate) mod run_file;
pub(crate) mod torch_dump;

pub(crate) use each::{each_device, each_file, each_path};
pub(crate) use opened::{
    Opened, heap, is_baseline, is_json, is_stdin, list, name, parse, read_profile, read_unmappable,
    recovered, unknown, unreadable,
};
pub use opener::NamedSnapshot;
pub(crate) use opener::Opener;
