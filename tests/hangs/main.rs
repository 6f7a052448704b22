//! What must not hang: sources that wait for an interpreter, signal handlers, and children of `fork`.
//!
//! Each test runs in a process of its own with a time limit (`own_process`), because a hang cannot be stopped from
//! within, and because signals, forks and the panic hook belong to the whole process.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(missing_docs)]

mod forks;
mod host;
mod no_list;
mod signals;
mod sound;
mod sources;
mod tapes;
mod verdicts;

use memreel_testing::own_process;
