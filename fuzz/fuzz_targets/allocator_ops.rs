//! Runs the input as a program of operations on allocators; after every step all must agree.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/it/allocator/operations.rs"]
mod operations;

fuzz_target!(|bytes: &[u8]| operations::run(bytes));
