//! Prints devices, streams and pools.

#![forbid(unsafe_code)]

use memreel_snapshot::{DeviceId, PoolId, StreamId, analysis::PoolOf, model::Segment};

/// Returns the text for a device: `device 0`, or `host (pinned memory)`.
pub(crate) fn device(device: DeviceId) -> String {
    if device == DeviceId::HOST { "host (pinned memory)".to_owned() } else { format!("device {device}") }
}

/// Returns the text for a stream's handle, in hexadecimal; the default stream is `0`.
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

/// Returns the text for a pool: `default`, `graph (1, 0)` or `MemPool (0, 1)`.
pub(crate) fn pool_text(pool: PoolId) -> String {
    match PoolOf::id(pool) {
        PoolOf::Default => PoolOf::Default.name().to_owned(),
        of => format!("{} {pool}", of.name()),
    }
}
