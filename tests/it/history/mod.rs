//! Tests of what a trace means: the state at any moment of a history (`state`).
#![forbid(unsafe_code)]

mod state;
