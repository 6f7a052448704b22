//! How many recorded requests a second run under one setting.
//!
//! `cargo bench --bench replay -- --json`. A request is an allocation, with its
//! free; an answer under one setting is a run with rising and one with
//! falling addresses, so requests are counted once for each run.

use std::time::{Duration, Instant};

use memreel::{
    DeviceId, Snapshot,
    event_trace,
};

fn main() {}
