//! Tests of what a trace means: the state at any moment of a history (`state`), and how far to trust it (`trust`).
#![forbid(unsafe_code)]

mod state;
mod trust;
