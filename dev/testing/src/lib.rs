//! Helpers for the tests of several packages: random numbers and their seeds, a separate process for a test, libraries
//! that a test compiles, hostile files, and the shared libraries of the workspace.
#![allow(clippy::missing_panics_doc, reason = "a helper that fails ends its test")]

mod built;
pub mod fixtures;
pub mod hostile;
mod interpreters;
pub mod recorded;
mod repository;
pub mod seeds;
// The files are in `src`, because a package that is published has only files of its own, and memreel's unit tests use them.
#[path = "../../../src/process/testing/mod.rs"]
mod unit;

pub use built::{built, triple};
pub use interpreters::interpreters;
pub use repository::{repository, say};
pub use unit::{library, own_process, random};
