//! Code for one processor: how a function passes on its return address, and a call on another stack.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{call_on, jump_with_caller};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{call_on, jump_with_caller};
