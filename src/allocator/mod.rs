//! The caching allocator: keeps freed memory for later requests and records every change as an event.
//!
//! `core` serves requests, `free` takes blocks back, `release` returns segments and `garbage` returns old ones early; `expandable`
//! grows and shrinks ranges by pages; `private_pools` routes requests to private pools. `growth` is the thread that may call the
//! device, `waiting` waits there for streams, and `supply` counts the memory. `settings` and `conf` are PyTorch's options, `restore`
//! makes an allocator with the segments and blocks of another, and `stream_table` is a hash table whose order is part of the rules.
//!
//! It behaves like PyTorch 2.11's CUDA allocator, event for event, under every
//! setting (`docs/caching-allocator.md`). One lock protects all its state; no call of the device that can take long
//! is made under it (`growth`). The allocator does not depend on snapshots: they inspect it through
//! [`Inventory`](memreel_snapshot::words::Inventory).

mod caching_allocator;
mod shared;
mod allocation;
mod conf;
mod settings;
mod size;
mod core;
mod growth;
mod search;
mod garbage;
mod raw;
mod expandable;
mod free;
mod waiting;
mod free_set;
mod release;
mod oom;
mod inspect;
mod restore;
mod private_pools;
#[cfg(feature = "cuda")]
mod graph_pool;
mod pool;
mod bin;
mod block;
mod ids;
mod supply;
mod stats;
mod summary;
mod tally;
mod stream_table;

pub use allocation::Allocation;
pub use caching_allocator::CachingAllocator;
pub(crate) use caching_allocator::HeldBytes;
#[cfg(feature = "cuda")]
pub(crate) use graph_pool::{BegunPool, GraphPool};
pub use oom::OomObserver;
pub use private_pools::{PoolOptions, Route};
pub(crate) use restore::{Layout, ReservedRange, UsedBlock, divide};
pub use settings::Settings;
pub use stats::{MemInfo, MemoryStats, PoolStat, Stat};
pub use summary::MemorySummary;
