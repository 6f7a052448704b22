//! Triggers: snapshots that are written without being asked for at that moment.
//!
//! [`Triggers`] names the moments (a failed request, a signal, the exit, a panic, a time, a number of bytes, a new
//! peak) and the files. [`Reel::dump_on`](crate::Reel::dump_on) puts them into force, and so does the environment
//! variable `MEMREEL` in a program that is already built. `docs/triggers.md` has the table of both.
//!
//! One thread of memreel's own writes all snapshots but those of failed requests. It is started by the first triggers
//! that need it, blocks all signals and records nothing of its own work.

mod cause;
mod failures;
mod template;
mod pattern;
mod signal_number;
mod triggers;
mod overlay;
mod grammar;
mod environment;
mod files;
mod whole_file;
mod verdict_files;
mod oom_files;
mod dumping;
mod on_failure;
mod oom_turn;
mod armed;
mod registry;
mod word;
mod requests;
mod mask;
mod worker;
mod signal;
mod exit;
mod panic;
mod install;
mod sets;

mod checked;

pub use checked::{check, seconds};
pub use signal_number::Signal;
pub use triggers::Triggers;

pub(crate) use armed::{Levels, Source};
pub(crate) use environment::environment;
pub(crate) use failures::n_failed;
pub(crate) use install::{arm, revive};
pub(crate) use on_failure::OnFailure;
pub(crate) use oom_files::OomFiles;
pub(crate) use overlay::Overlay;
pub(crate) use sets::Sets;
