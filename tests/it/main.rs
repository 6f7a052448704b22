//! Every integration test, in one binary. What belongs where:
//!
//! - `layers`: which room may import which.
//! - `device_contract`: what every device promises.
//! - `worked`: the allocator's worked scenarios, each a few lines.
//! - `scenario`: the allocator against recordings of PyTorch's, through `replay`.
//! - `model`: the naive allocator that `programs` holds the real one against.
//! - `program`: what random programs are made of.
//! - `programs`: ten thousand random programs under random settings.
//! - `invariants`: what holds of any allocator at any moment.
//! - `stress`: two threads, eight streams, a million operations.
//! - `stories`: what people tell each other about the allocator, with numbers.
//! - `buffer`: views of typed memory.
//! - `recorder`: what is recorded under which options; ledgers; scopes.
//! - `reel`: several devices, threads, out of memory.
//! - `validate`: each rule of the format broken once, and real dumps.
//! - `histories`: random histories of a tiny allocator, true and with one wrong figure.
//! - `schema`: the JSON Schema takes the right snapshots and refuses the wrong ones.
//! - `pickle`: snapshot files of every PyTorch, read and written again.
//! - `python`: CPython as a second opinion, where there is one.
//! - `cli`: the program, its output and its exit status.

mod buffer;
#[cfg(feature = "cli")]
mod cli;
mod device_contract;
mod histories;
mod invariants;
mod layers;
mod model;
mod pickle;
mod program;
mod programs;
mod python;
mod recorder;
mod reel;
mod replay;
mod scenario;
mod schema;
mod stories;
mod stress;
mod validate;
mod worked;
