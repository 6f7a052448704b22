//! Recorder and inventory, read while the allocator stands still, become a `Snapshot`.

/// Which PyTorch's keys a snapshot carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Dialect {
    /// The keys of PyTorch 2.11 in its order; every viewer and tool reads them.
    #[default]
    Torch2_11,
    /// Those of PyTorch 2.15: `pool_id` in entries, `host_segments` and `host_traces`.
    Torch2_15,
}

/// Placeholder signature until the recorder lands.
pub fn collect() {}
