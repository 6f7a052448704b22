//! memreel's own stack walk, with rules cached for all threads and frames kept for each thread.
//!
//! In steady state it calls nothing outside this crate: no allocator, no lock, no loader. What differs between
//! processors is in `processor/`. On other machines, `portable.rs` replaces all this.

mod bounds;
mod cache;
mod capture;
mod cfi;
mod ends;
mod join;
mod last;
mod learn;
mod prepare;
mod processor;
mod rule;
mod step;
mod thread;
mod walk;

pub(super) use bounds::known_stacks;
pub(super) use capture::capture;
pub(super) use learn::after_fork;
#[cfg(test)]
pub(super) use learn::{learn, recheck};
pub(super) use prepare::prepare;
