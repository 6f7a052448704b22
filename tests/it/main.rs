//! Every integration test, in one binary: a folder for each room of `src`, and these files:
//!
//! - `layers`: which room may import which.
//! - `recorded`: random recordings for the tests of rewriting.
//! - `fix`: broken snapshots, repaired.
//! - `slim`: windows, small blocks, frames left out.
//! - `merge`: ranks in one file, devices in several.
//! - `convert`: snapshots in other tools' formats, read again.
//! - `random`: random numbers, for all of these.
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

mod allocator;
mod convert;
mod fix;
mod histories;
mod layers;
mod merge;
mod model_recording;
mod pickle;
mod python;
mod questions;
mod random;
mod recorded;
mod recorder;
mod schema;
mod slim;
mod stack;
mod state;
mod validate;
mod whatif;

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
