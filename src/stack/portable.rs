//! The place of `unwind/` on machines where memreel has no walk of its own.
#![forbid(unsafe_code)]

use super::{intern::StackInterner, method::StackMethod};
use memreel_snapshot::words::StackId;

/// Returns none: the only method is the portable one.
pub(super) fn prepare() -> Option<StackMethod> {
    None
}

/// Does nothing: the system's unwinder has no state of memreel's.
#[cfg_attr(loom, allow(dead_code))]
pub(super) fn after_fork() {}

/// The portable walk does not ask where a stack is.
#[cfg(not(loom))]
pub(super) fn known_stacks() -> impl Iterator<Item = std::ops::Range<usize>> {
    std::iter::empty()
}

/// Captures nothing: the portable walk has to.
pub(super) fn capture(_: &StackInterner, _: StackMethod) -> Option<StackId> {
    None
}
