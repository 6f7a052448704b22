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
//! - `settings`: settings texts, and expandable segments on the host.
//! - `stories`: what people tell each other about the allocator, with numbers.
//! - `buffer`: views of typed memory.
//! - `recorder`: what is recorded under which options; ledgers; scopes.
//! - `tape`: threads that record at once, filters, a second source of frames.
//! - `recorded`: random recordings for the tests of rewriting.
//! - `fix`: broken snapshots, repaired.
//! - `slim`: windows, small blocks, frames left out.
//! - `merge`: ranks in one file, devices in several.
//! - `convert`: snapshots in other tools' formats, read again.
//! - `random`: random numbers, for all of these.
//! - `failures`: a device that fails while frees wait for streams.
//! - `reel`: several devices, threads, out of memory.
//! - `validate`: each rule of the format broken once, and real dumps.
//! - `histories`: random histories of a tiny allocator, true and with one wrong figure.
//! - `schema`: the JSON Schema takes the right snapshots and refuses the wrong ones.
//! - `pickle`: snapshot files, read and written.
//! - `python`: CPython as a second opinion, in tests that are run with `--ignored`.
//! - `whatif`: recorded histories under other settings.
//! - `questions`: each question of `analysis` on a history of a few events.
//! - `state`: the state at any moment of a history, against an allocator that remembers.
//! - `model_recording`: recordings of models as snapshots, for `whatif` and its bench.
//! - `stack`: files on the way of a capture name no lock (`locks`); frames of libraries that were unloaded,
//!   replaced or followed by others (`names`; `library` compiles them).

mod buffer;
mod convert;
mod device_contract;
mod failures;
mod fix;
mod histories;
mod invariants;
mod layers;
mod merge;
mod model;
mod model_recording;
mod pickle;
mod program;
mod programs;
mod python;
mod questions;
mod random;
mod recorded;
mod recorder;
mod reel;
mod replay;
mod scenario;
mod schema;
mod settings;
mod slim;
mod stack;
mod state;
mod stories;
mod stress;
mod tape;
mod validate;
mod whatif;
mod worked;

/// Prints a line that is wanted on every run, past the harness's capture.
fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Where tests write snapshots that should open in the viewer; the gate opens them there.
fn written(name: &str) -> std::path::PathBuf {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("snapshots");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}
