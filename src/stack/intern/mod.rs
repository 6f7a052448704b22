//! Gives stacks numbers: a table that is read without a lock, and what a tape's file must know to name its stacks.

#[cfg(loom)]
mod explored;
mod frames;
mod index;
mod insert;
#[cfg_attr(
    not(all(
        target_os = "linux",
        target_env = "gnu",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(miri)
    )),
    allow(dead_code, reason = "some of it serves `unwind/` alone")
)]
mod interner;
pub(super) mod key;
pub(super) mod limits;
#[cfg(not(loom))]
mod noted;
mod record;
mod reserve;
mod source;

#[cfg(loom)]
pub use explored::Stacks;
pub use source::{FrameSource, SourceCode, SourceFrame};

pub(crate) use frames::Frames;
pub(crate) use interner::{StackInterner, StackParts};
#[cfg(not(loom))]
pub(crate) use noted::AskLater;
pub(crate) use reserve::with as with_reserve;
