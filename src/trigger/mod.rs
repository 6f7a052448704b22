//! Triggers: conditions under which snapshots are written automatically.
//!
//! [`Triggers`] names the moments (a failed request, a signal, the exit, a panic, a time, a number of bytes, a new
//! peak) and the files. [`Reel::dump_on`](crate::Reel::dump_on) activates them; so does the environment variable
//! `MEMREEL`, for a program that is already built. `docs/triggers.md` has the table of both.
//!
//! A thread of memreel writes all snapshots except those of failed requests. It is started by the first triggers that
//! need it, blocks all signals and records nothing of its own work.

mod cause;
mod files;
mod oom;
mod signal_number;
mod thread;
mod when;

pub use files::template::fill;
pub use signal_number::Signal;
pub use when::armed::Levels;
pub use when::checked::{check, seconds};
pub use when::triggers::Triggers;

pub(crate) use oom::files::OomFiles;
pub(crate) use oom::on_oom::OnFailure;
pub(crate) use thread::install::{arm, revive};
pub(crate) use when::armed::Source;
pub(crate) use when::environment::environment;
pub(crate) use when::grammar::Parsed;
pub(crate) use when::sets::Sets;
