//! What was asked for in a block, in the layouts of every PyTorch.

use crate::snapshot::{Block, Field, Snapshot, Value};

/// The requested bytes of a block: `requested_size` where it has frames, otherwise the newest use
/// that its `history` tells (PyTorch 2.0), otherwise its size (snapshot-format.md 4.2).
///
/// In an inactive block it is what was asked for last.
#[must_use]
pub fn requested_bytes(snapshot: &Snapshot, block: &Block) -> u64 {
    let shape = snapshot.shapes.get(block.shape);
    if !shape.has(Field::Frames)
        && let Some(uses) = shape.value("history").and_then(Value::as_elements)
    {
        return uses.first().map_or(0, real_bytes);
    }
    if shape.has(Field::RequestedSize) { block.requested_size } else { block.size }
}

/// The bytes of one item of a `history`.
pub(crate) fn real_bytes(used: &Value) -> u64 {
    used.get("real_size").and_then(Value::as_int).and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0)
}
