//! A segment from the device, or a mapped stretch of an expandable one, while the segment events are undone.

use memreel_snapshot::{
    history::RangeValue,
    words::{PoolKind, StreamId},
};

/// The requests that a segment is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    pub(super) stream: StreamId,
    pub(super) kind: PoolKind,
    /// The private pool, as in a request.
    pub(super) pool: u16,
}

/// A segment, or a mapped stretch of an expandable one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Held {
    pub(super) key: Key,
    pub(super) is_expandable: bool,
}

impl RangeValue for Held {
    fn joins(&self, next: &Held) -> bool {
        self.is_expandable && next.is_expandable && self.key == next.key
    }
}
