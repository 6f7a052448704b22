//! Helpers of unit tests: random numbers, a separate process for a test, and libraries that a test compiles.
//!
//! The package `memreel-testing` has the same files, for tests outside `src`.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "public in that package; not every test program uses every function"
)]

pub mod library;
pub mod own_process;
pub mod random;
