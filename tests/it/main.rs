//! Every integration test, in one binary. What belongs where:
//!
//! - `hostile`: broken and malicious snapshot files.
//! - `layers`: which room may import which.
//! - `pickle`: snapshot files of every PyTorch, read and written again.
//! - `pickle_file`: the whole file or nothing.
//! - `pickle_write`: what is written, seen by other readers.
//! - `python`: CPython as a second opinion, where there is one.

mod hostile;
mod layers;
mod pickle;
mod pickle_file;
mod pickle_write;
mod python;
