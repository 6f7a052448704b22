//! Tests of the devices, the caching allocator, and what is built directly on it.
//!
//! The allocator is compared with three things: recordings of PyTorch (`scenario`, run by `replay`), worked
//! examples of the rules (`worked`, `stories`), and a naive allocator (`model`) on random programs (`program`,
//! `programs`). `invariants` has the checks that hold for any allocator at any time. `blocking` is about calls of the
//! device that take long, on a `hooked` device. `bytes` runs programs of `operations`, as the fuzz target
//! `allocator_ops` does.

mod blocking;
mod buffer;
mod bytes;
mod device_contract;
mod failures;
mod hooked;
mod invariants;
mod model;
mod operations;
mod program;
mod programs;
mod reel;
mod replay;
mod scenario;
mod settings;
mod stories;
mod stress;
mod worked;
