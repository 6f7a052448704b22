//! Replaces `unwind/` on machines for which memreel has no stack walk.
#![forbid(unsafe_code)]

use super::{intern::StackInterner, method::StackMethod};
use memreel_snapshot::words::StackId;

/// Returns none: the portable walk is the only method.
pub(super) fn prepare() -> Option<StackMethod> {
    None
}

/// Does nothing: the system's unwinder has no state of memreel's.
pub(super) fn after_fork() {}

/// Returns none: the portable walk does not need the bounds of stacks.
pub(super) fn known_stacks() -> impl Iterator<Item = std::ops::Range<usize>> {
    std::iter::empty()
}

/// Captures nothing, so that the portable walk is used.
pub(super) fn capture(_: &StackInterner, _: StackMethod) -> Option<StackId> {
    None
}
