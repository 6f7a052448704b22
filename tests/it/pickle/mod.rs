//! Snapshot files, read and written. What belongs where:
//!
//! - `files`: the files of the fixtures.
//! - `round_trip`: files of every PyTorch, read and written again; with CPython where it is installed.
//! - `written_bytes`: what the writer promises about its bytes.
//! - `saving`: a file is saved as a whole or not at all.
//! - `lazy_rewriting`: rewriting with the events left in the file.
//! - `hostile`: files that lie, end early, or were changed.

mod files;
mod round_trip;
mod written_bytes;
mod saving;
mod lazy_rewriting;
mod hostile;
