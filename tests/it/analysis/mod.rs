//! Tests of questions about a snapshot (`questions`), of limits in tests (`gate`), and of curves (`timeline`).
#![forbid(unsafe_code)]

mod gate;
mod questions;
mod timeline;
mod scopes;
mod sites;
