//! Tests of what a snapshot has of a recorder: the library of a frame.
#![forbid(unsafe_code)]

mod library;
