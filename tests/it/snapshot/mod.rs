//! Tests of the model of a file: the JSON Schema accepts correct snapshots and rejects wrong ones (`schema`).
#![forbid(unsafe_code)]

mod schema;
