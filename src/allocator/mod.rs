//! The caching allocator: alloc, free, record_stream, empty_cache; one lock; every change is an event.
//!
//! It behaves as PyTorch 2.11's CUDA allocator does, event for event, under
//! every setting (caching-allocator.md). It knows nothing of
//! snapshots: it can be looked at as an [`Inventory`](crate::inventory::Inventory), and that is all.

mod caching_allocator;
mod shared;
mod allocation;
mod conf;
mod settings;
mod size;
mod heap;
mod search;
mod garbage;
mod raw;
mod expandable;
mod free;
mod free_set;
mod release;
mod oom;
mod inspect;
mod private;
mod pool;
mod bin;
mod block;
mod ids;
mod segments;
mod stats;
mod summary;
mod tally;
mod stream_table;

pub use allocation::Allocation;
pub use caching_allocator::CachingAllocator;
pub use oom::OomObserver;
pub use private::{PoolOptions, Route};
pub use settings::Settings;
pub use stats::{MemInfo, MemoryStats, PoolStat, Stat};
pub use summary::MemorySummary;
