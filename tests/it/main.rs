//! Every integration test, in one binary. What belongs where:
//!
//! - `cli`: the program, its output and its exit status.
//! - `histories`: random histories of a tiny allocator, true and with one wrong figure.
//! - `layers`: which room may import which.
//! - `pickle`: snapshot files of every PyTorch, read and written again.
//! - `python`: CPython as a second opinion, where there is one.
//! - `schema`: the JSON Schema of a snapshot takes the right ones and refuses the wrong ones.
//! - `validate`: each rule of the format broken once, random histories, real dumps.

#[cfg(feature = "cli")]
mod cli;
mod histories;
mod layers;
mod pickle;
mod python;
mod schema;
mod validate;
