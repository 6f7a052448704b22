//! Snapshots without being asked: each trigger in a process of its own, told by the library or by the environment.

mod bytes;
mod environment;
mod exit;
mod failures;
mod forks;
mod oom;
mod panic;
mod program;
mod signal;
mod tape;
mod time;
