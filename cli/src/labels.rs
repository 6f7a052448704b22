//! Streams and pools, as columns show them.

#![forbid(unsafe_code)]

use memreel_snapshot::{PoolId, StreamId, model::Segment};

/// Returns a stream's handle, in hexadecimal; the default stream is `0`.
pub(crate) fn stream(StreamId(handle): StreamId) -> String {
    if handle == 0 { "0".to_owned() } else { format!("{handle:#x}") }
}

/// Returns the kind of a segment's pool, whether it is expandable, and the id of a private pool.
pub(crate) fn pool(segment: &Segment) -> String {
    let kind = segment.kind.map_or("?", |kind| kind.name());
    let expandable = if segment.is_expandable { " expandable" } else { "" };
    match segment.pool {
        PoolId::DEFAULT => format!("{kind}{expandable}"),
        PoolId { graph, user } => format!("{kind}{expandable} ({graph},{user})"),
    }
}
