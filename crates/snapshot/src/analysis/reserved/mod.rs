//! Finds which memory is reserved but not in use, where it is, and what keeps it.

mod captured;
mod segment_sum;
mod stream_use;
mod idle_streams;
mod reserved_growth;
mod waiting;
mod wanted;
mod pinned;
mod pool_use;
mod fragmentation;

pub use fragmentation::{Fragmentation, IdlePool};
pub use idle_streams::IdleStreams;
pub use pinned::PinnedSegment;
pub(super) use pinned::pinned;
pub(super) use pool_use::pool_name;
pub use pool_use::{PoolOf, PoolUse};
pub use reserved_growth::ReservedGrowth;
pub use segment_sum::SegmentSum;
pub use stream_use::StreamUse;
pub use waiting::Waiting;
pub use wanted::Wanted;
