//! Gives stacks numbers: their keys and their memory, and what a tape's file must know to name them.

mod frames;
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
mod memory;
mod noted;
mod reserve;
mod source;

pub use source::{FrameSource, SourceCode, SourceFrame};

pub(crate) use frames::Frames;
pub(crate) use interner::{StackInterner, StackParts};
pub(crate) use noted::AskLater;
pub(crate) use reserve::with as with_reserve;
