//! Tests of recording: options, ledgers and scopes (`recording`); names of blocks (`annotate`); several threads,
//! filters and frame sources (`tape`).
#![forbid(unsafe_code)]

mod annotate;
mod recording;
mod tape;
