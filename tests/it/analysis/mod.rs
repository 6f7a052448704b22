//! Tests of questions about a snapshot (`questions`) and of limits in tests (`gate`).
#![forbid(unsafe_code)]

mod gate;
mod questions;
