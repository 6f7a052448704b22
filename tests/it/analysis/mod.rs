//! Tests of questions about a snapshot (`questions`).
#![forbid(unsafe_code)]

mod questions;
