//! Every integration test, in one binary: a folder for each room of `src`, and `layers` for the rooms themselves.
//!
//! - `layers`: which room may import which, circles of imports, and where unsafe code is.
//! - `allocator`: PyTorch's rules, buffers, and devices, on the host and simulated.
//! - `recorder`: what is recorded, by many threads and filters.
//! - `trigger`: snapshots without being asked, each in a process of its own.
//! - `stack`: frames of libraries that were unloaded or replaced; files on the way of a capture name no lock.
//! - `snapshot`: the JSON Schema of the model, and the table of rules in its page.
//! - `pickle`: files, read and written; files that lie.
//! - `validate`: each rule of the format broken once.
//! - `history`: the state at any moment.
//! - `analysis`: each question on a history of a few events.
//! - `rewrite`: `fix`, `slim`, `merge` and `split`.
//! - `torch_blocks`: the driver's snapshot and PyTorch's, of one allocator whose device reports its calls.
//! - `export`: other tools' formats, read again.
//! - `whatif`: recorded histories under other settings.
//! - `oom`: what is said of a failed request, by its error and beside its snapshot.
//! - `oracle`: random histories with known truth, against every question, window and gate.
//! - `absurd`: recordings with absurd numbers, against every question, rewrite and format.
//! - `recorded`: recordings of random programs, for every room.
//! - `fixtures`: the snapshot files of the repository, for every room.
//!
//! The package `memreel-testing` has what the tests of other packages use too: random numbers and their seeds, and a process
//! of its own for a test that may hang or abort.
//!
//! The oracles share no code with what they test:
//!
//! - recordings of PyTorch on a GPU, event for event (`allocator::scenario`, `whatif::replays`; `MEMREEL_SCENARIOS`);
//! - PyTorch's dumps (`pickle::round_trip`, `validate::rules`; `MEMREEL_SNAPSHOTS`);
//! - a naive allocator on random programs (`allocator::model`), and worked examples of the rules (`allocator::worked`);
//! - a naive allocator that remembers all of its states (`history::state`), and a naive replay (`rewrite::slim`);
//! - a tiny allocator whose histories are sound, and unsound after one change (`validate::histories`);
//! - a random allocator that remembers everything, and files of it in every layout (`oracle`; `MEMREEL_HISTORIES`);
//! - CPython's `pickle` and `json` (`pickle::python`), serde-pickle (`pickle::written_bytes`), the JSON Schema
//!   (`snapshot::schema`), and readers of pprof's and Perfetto's formats (`export::convert`).

mod absurd;
mod allocator;
mod analysis;
mod export;
mod fixtures;
mod history;
mod layers;
mod oom;
mod oracle;
mod pickle;
mod recorded;
mod recorder;
mod rewrite;
mod snapshot;
mod stack;
mod torch_blocks;
mod trigger;
mod validate;
mod whatif;

use memreel_testing::{own_process, random, seeds};

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
