//! Tests of the model of a file: the JSON Schema accepts correct snapshots and rejects wrong ones (`schema`); the library of
//! a frame (`library`).
#![forbid(unsafe_code)]

mod library;
mod schema;
