//! Tests of recording: options, ledgers and scopes (`recording`); several threads, filters and frame sources
//! (`tape`).
#![forbid(unsafe_code)]

mod recording;
mod tape;
