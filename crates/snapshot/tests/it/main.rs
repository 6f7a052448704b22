//! Every integration test of what reads, in one binary: a folder for each room of `crates/snapshot/src`.
//!
//! - `model`: the JSON Schema of the model, and the table of rules in its page.
//! - `pickle`: files, read and written; files that lie.
//! - `profile`: profiles of pprof as snapshots.
//! - `validate`: each rule of the format broken once.
//! - `history`: the state at any moment.
//! - `analysis`: each question on a history of a few events.
//! - `rewrite`: `fix`, `slim`, `merge` and `split`.
//! - `join`: the driver's snapshot and PyTorch's, of one allocator whose device reports its calls.
//! - `export`: other tools' formats, read again.
//! - `log`: messages of failed requests, by the form of each program.
//! - `machines`: folders of machines, which no file of `fixtures/` names.
//! - `oracle`: random histories with known truth, against every question, window and gate.
//! - `absurd`: recordings with absurd numbers, against every question, rewrite and format.
//!
//! Some of them record what they read with `memreel`.
//!
//! The oracles share no code with what they test:
//!
//! - PyTorch's dumps (`pickle::round_trip`, `validate::rules`; `MEMREEL_SNAPSHOTS`);
//! - a naive allocator that remembers all of its states (`history::state`), and a naive replay (`rewrite::slim`);
//! - a tiny allocator whose histories are sound, and unsound after one change (`validate::histories`);
//! - a random allocator that remembers everything, and files of it in every layout (`oracle`; `MEMREEL_HISTORIES`);
//! - CPython's `pickle` and `json` (`pickle::python`), serde-pickle (`pickle::written_bytes`), the JSON Schema
//!   (`model::schema`), and readers of pprof's and Perfetto's formats (`export::convert`).

mod absurd;
mod analysis;
mod export;
mod history;
mod join;
mod log;
mod machines;
mod model;
mod oracle;
mod pickle;
mod profile;
mod rewrite;
mod validate;

use memreel_testing::{fixtures, own_process, random, recorded, seeds};

/// Where tests write snapshots that should open in the viewer; the gate opens them there.
fn written(name: &str) -> std::path::PathBuf {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("snapshots");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}
