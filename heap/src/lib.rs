//! `libmemreel_heap.so`: reports what any program asks of `malloc` to `libmemreel_preload.so`.
//!
//! Both are in `LD_PRELOAD`. The functions of this library (`functions.rs`) call those of the next one that has them
//! (`next.rs`), such as glibc or another allocator, and report to the other library, if it is there (`reports.rs`).
//! Nothing here allocates: what is asked for while the next functions are looked up comes from `early.rs`.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod early;
mod next;
mod reports;
mod functions;
