//! `libmemreel_heap.so`: reports a program's calls of `malloc` to `libmemreel_preload.so`.
//!
//! Both are in `LD_PRELOAD`. The functions of this library (`functions.rs`, `operators.rs`, `allocators.rs`) call those of
//! the next one that has them (`next.rs`), such as glibc or another allocator, and report to the other library, if it is
//! there (`connect.rs`, `reports.rs`). Nothing here allocates, except to find a function in a library that one part of the
//! program has for itself (`libraries.rs`): what is asked for while the next functions are looked up comes from `early.rs`.
#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod apart;
mod early;
mod libraries;
mod code;
mod loader;
mod next;
mod imports;
mod processor;
mod sanitizers;
mod small_stack;
mod handler;
mod reports;
mod asked;
mod forks;
mod connect;
mod other;
mod wrapped;
mod functions;
mod maps;
mod operators;
mod allocators;
