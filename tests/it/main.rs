//! Every integration test, in one binary. What belongs where:
//!
//! - `layers`: which room may import which.
//! - `device_contract`: what every device promises.
//! - `worked`: the allocator's worked scenarios, each a few lines.
//! - `scenario`: the allocator against recordings of PyTorch's, through `replay`.
//! - `model`: the allocator against a naive model, under random requests.
//! - `stories`: what people tell each other about the allocator, with numbers.
//! - `buffer`: views of typed memory.
//! - `recorder`: what is recorded under which options; ledgers; scopes.
//! - `reel`: several devices, threads, out of memory.
//! - `validate`: each rule of the format broken once, and real dumps.
//! - `histories`: random histories of a tiny allocator, true and with one wrong figure.
//! - `schema`: the JSON Schema takes the right snapshots and refuses the wrong ones.
//! - `pickle`: snapshot files of every PyTorch, read and written again.
//! - `python`: CPython as a second opinion, where there is one.
//! - `whatif`: recorded histories under other settings.
//! - `replay_command`: `memreel replay`, its output and its exit status.
//! - `model_recording`: recordings of models as snapshots, for `whatif` and its bench.
//! - `cli`: the program, its output and its exit status.

mod buffer;
#[cfg(feature = "cli")]
mod cli;
mod device_contract;
mod histories;
mod layers;
mod model;
mod model_recording;
mod pickle;
mod python;
mod recorder;
mod reel;
mod replay;
#[cfg(feature = "cli")]
mod replay_command;
mod scenario;
mod schema;
mod stories;
mod validate;
mod whatif;
mod worked;
