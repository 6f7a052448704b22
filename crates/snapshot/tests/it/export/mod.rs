//! Tests of snapshots in other tools' formats, read again (`convert`).
#![forbid(unsafe_code)]

mod convert;
