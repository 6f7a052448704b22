//! Snapshot files, read and written. What belongs where:
//!
//! - `round_trip`: files of every PyTorch, read and written again, with CPython (`python`) as a second opinion.
//! - `written_bytes`: what the writer promises about its bytes.
//! - `saving`: a file is saved as a whole or not at all.
//! - `large_addresses`: addresses that need the 64th bit.
//! - `lazy_reading`: files read with and without their events.
//! - `lazy_rewriting`: rewriting with the events left in the file.
//! - `hostile`: files that lie, end early, or were changed.
//! - `changing`: files that another program changes while they are read.
#![forbid(unsafe_code)]

mod changing;
mod hostile;
mod large_addresses;
mod lazy_reading;
mod lazy_rewriting;
mod others;
mod python;
mod round_trip;
mod saving;
mod written_bytes;
