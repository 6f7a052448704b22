//! Tests of captures that need the numbers and addresses of stacks.
#![cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
))]

mod bounce;
mod chain;
mod frames;
mod methods;
mod unloading;
