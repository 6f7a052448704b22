//! Tests of what a trace means: the state at any moment of a history (`state`), how far to trust it (`trust`), and
//! `annotate` entries (`annotations`).
#![forbid(unsafe_code)]

mod annotations;
mod state;
mod trust;
