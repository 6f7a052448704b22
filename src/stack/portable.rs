//! Stands in for the walk of `unwind/` where memreel has none of its own.

use super::{capture::MAX_DEPTH, interner::StackInterner, method::StackMethod};
use crate::event::StackId;

/// There is no method but the portable one.
pub(super) fn prepare() -> Option<StackMethod> {
    None
}

/// Never captures: the portable walk has to.
pub(super) fn capture(_: &StackInterner, _: StackMethod) -> Option<StackId> {
    None
}

/// Never captures: the portable walk has to.
pub(super) fn capture_addresses(_: &mut [usize; MAX_DEPTH], _: StackMethod) -> Option<usize> {
    None
}
