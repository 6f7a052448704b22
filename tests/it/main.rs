//! Every integration test, in one binary: a folder for each room of `src`, and `layers` for the rooms themselves.
//!
//! - `layers`: which room may import which, circles of imports, and where unsafe code is.
//! - `allocator`: PyTorch's rules, buffers, and devices, on the host and simulated.
//! - `recorder`: what is recorded, by many threads and filters.
//! - `trigger`: snapshots without being asked, each in a process of its own.
//! - `stack`: frames of libraries that were unloaded or replaced; files on the way of a capture name no lock.
//! - `collect`: what a snapshot has of a recorder.
//! - `whatif`: recorded histories under other settings.
//! - `fit`: what runs of some sizes say of another.
//! - `oom`: what is said of a failed request, by its error and beside its snapshot.
//!
//! The package `memreel-testing` has what the tests of other packages use too: random numbers and their seeds, and a process
//! of its own for a test that may hang or abort.
//!
//! The oracles share no code with what they test:
//!
//! - recordings of PyTorch on a GPU, event for event (`allocator::scenario`, `whatif::replays`; `MEMREEL_SCENARIOS`);
//! - a naive allocator on random programs (`allocator::model`), and worked examples of the rules (`allocator::worked`).

mod allocator;
mod collect;
mod fit;
mod layers;
mod oom;
mod recorder;
mod stack;
mod trigger;
mod whatif;

use memreel_testing::{fixtures, own_process, random};

/// Where tests write snapshots that should open in the viewer; the gate opens them there.
fn written(name: &str) -> std::path::PathBuf {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("snapshots");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}
