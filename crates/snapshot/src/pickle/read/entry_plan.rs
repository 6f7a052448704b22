//! Predicts the layout of the next trace entry, key by key.

#![forbid(unsafe_code)]

use std::ops::Range;

use super::{
    cursor::{Cursor, Prefix},
    node::Item,
    words::Key,
};
use crate::pickle::opcode;

/// A key that the next entry is expected to have in the same place, as the bytes that it takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedKey {
    pub(super) key: Key,
    pub(super) bytes: Prefix,
    /// Of a key without a field: the bytes of the value, and the item that is put in the memo with it.
    pub(super) value: Option<(Prefix, Item)>,
}

impl PlannedKey {
    /// Plans the key whose value ends at the cursor, if both can be repeated: the key comes from the memo, and the
    /// value puts nothing there under a number that the file writes out (`puts`).
    pub(super) fn new(
        c: &Cursor<'_>,
        key: Key,
        key_bytes: Range<usize>,
        memoized: Item,
        puts: bool,
    ) -> Option<PlannedKey> {
        let value_begin = key_bytes.end;
        let key_bytes = c.bytes.get(key_bytes)?;
        let is_fetched = matches!(key_bytes.first(), Some(&opcode::BINGET | &opcode::LONG_BINGET));
        if !is_fetched || memoized != Item::Absent && puts {
            return None;
        }
        let value = match key {
            Key::Other => Some((Prefix::new(c.bytes.get(value_begin..c.pos)?)?, memoized)),
            _ => None,
        };
        Some(PlannedKey { key, bytes: Prefix::new(key_bytes)?, value })
    }
}
