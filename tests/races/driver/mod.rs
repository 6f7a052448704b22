//! A stand-in for NVIDIA's driver, `libcuda.so.1`, that needs no GPU and checks the order of work.
//!
//! `tests/races` compiles this folder as a shared library and loads it in place of the driver; it uses std alone.
//! Copies and memsets run at once, on memory that is only a table here, so a program reads the values that it
//! would read from a GPU. Their order is checked as if they ran as late as the rules of CUDA permit:
//!
//! - Each stream has a vector clock. An operation is an access to a range of memory. Two accesses that overlap, of
//!   which one writes, must be ordered: by one stream, by an event that the other stream waits for, by the legacy
//!   default stream, or because the host waited. Otherwise they are a race (`memory.rs`).
//! - Nothing completes by itself: an event that the host asks for is not ready until the host waits, or, after
//!   `fake_progress`, at random. Both are legal GPUs.
//! - Memory, streams, events and contexts that are used after they are gone are reported too, and a graph that is
//!   launched after memory that it uses was freed.
//!
//! `control.rs` has the functions for tests. A function of the driver that is missing here fails in cudarc with
//! its name.
#![allow(missing_docs, unreachable_pub, missing_debug_implementations)]

mod calls;
mod calls_memory;
mod calls_streams;
mod capture;
mod clock;
mod context;
mod control;
mod memory;
mod state;
mod streams;
