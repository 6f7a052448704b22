//! Facts about a process: its locks and forks, the signals of its threads, what it inherited, its rank, its host, its
//! resident memory, times as text.
//!
//! `fork` takes the registered locks before a fork and releases them after it in both processes; `wiped` finds children
//! whose fork no handler saw. `memory` is what the kernel has resident of the process, `own_pages` the memory of the hooks.
//! `guard` marks the recorder's own work, `counter` is the processor's counter, `inherited`
//! what a program that is started is to find as this process did, `beside` a process that may fail in place of this one, and
//! `ahead` loads memory before it is needed.

pub(crate) mod ahead;
#[cfg(target_os = "linux")]
pub(crate) mod beside;
pub(crate) mod counter;
pub(crate) mod counters;
pub(crate) mod environment;
#[cfg_attr(not(all(target_os = "linux", not(miri))), allow(dead_code, reason = "nothing forks"))]
pub(crate) mod fork;
#[cfg_attr(not(all(target_os = "linux", not(miri))), allow(dead_code, reason = "nothing forks"))]
mod forking;
pub(crate) mod guard;
#[cfg(target_os = "linux")]
pub(crate) mod host;
#[cfg(target_os = "linux")]
pub(crate) mod inherited;
#[cfg(target_os = "linux")]
pub(crate) mod mask;
#[cfg(target_os = "linux")]
pub(crate) mod memory;
#[cfg(target_os = "linux")]
pub(crate) mod notice;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
pub(crate) mod own_maps;
pub mod own_memory;
#[cfg(target_os = "linux")]
pub(crate) mod own_pages;
pub(crate) mod pause;
pub(crate) mod rank;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod time;
pub(crate) mod uncancelled;
pub(crate) mod until_end;
pub(crate) mod unwritten;
pub(crate) mod wiped;

/// Opens files that others may control.
pub(crate) use memreel_snapshot::place::open_plain;

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{mask, memory, notice, own_maps};
