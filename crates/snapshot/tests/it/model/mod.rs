//! Tests of the model of a file: the JSON Schema accepts correct snapshots and rejects
//! wrong ones (`schema`), and its page has every key (`keys`).
#![forbid(unsafe_code)]

mod keys;
mod schema;
