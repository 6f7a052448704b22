//! A stack is captured now, as numbers, and gets its names later.
//!
//! The door is [`capture()`]: it walks this thread's stack (`unwind/`, or
//! `portable.rs` with the system's unwinder) and asks the table for the number
//! of these addresses. In steady state neither takes a lock or calls an
//! allocator or the loader, so it can be called from inside any allocator;
//! `tests/preload.rs` counts that, and `tests/it/stacks.rs` reads the files for locks.

mod capture;
mod index;
mod insert;
mod method;
mod names;
mod record;
mod source;
mod interner;
#[cfg_attr(
    not(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64", not(miri))),
    path = "portable.rs"
)]
mod unwind;

#[cfg(test)]
mod chains;

pub use method::{StackMethod, stack_method};
pub use names::name_addresses;
pub use source::{FrameSource, SourceFrame};

pub(crate) use capture::capture;
pub(crate) use interner::StackInterner;
pub(crate) use names::{Symbol, Symbolizer};

/// The address that stands in the one frame of the stack that a full table gives.
///
/// No code is there, so it stands for nothing else.
pub(crate) const TABLE_FULL: usize = 1;
