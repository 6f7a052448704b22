//! memreel records what happens to memory, and writes what it recorded as
//! PyTorch memory snapshots, which <https://pytorch.org/memory_viz> draws.
//!
//! Use it in place of your allocator, or report to it from your own. It gives
//! you a file that shows which allocation was live when, made by which line of
//! your program, how segments are cut into blocks, and why a request failed
//! although memory was reserved.
//!
//! ```
//! use memreel::{Buffer, recorder::History};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("snapshot.pickle");
//! memreel::record_memory_history(&History::all())?;
//! let weights = Buffer::<f32>::zeros(memreel::default_allocator()?, &[1000, 1000])?;
//! {
//!     let _scope = memreel::scope("forward")?;
//!     let activations = weights.map(|w| w.max(0.0))?;
//! }
//! memreel::dump_snapshot(&path)?; // drop the file on pytorch.org/memory_viz
//! # Ok::<(), memreel::Error>(())
//! ```
//!
//! The functions at the root work on one process-wide [`Reel`] with the host
//! as device 0. [`Reel::builder`] makes others: several devices, limits,
//! simulated memory. [`recorder::Recorder::ledger`] records for an allocator
//! that is not memreel's.
//!
//! # From an allocation to a byte
//!
//! In the order of the walk: a [`device`] gives segments, the [`allocator`]
//! cuts them into blocks and reports every change to the [`recorder`], a
//! [`snapshot`](mod@snapshot) is collected from both, and [`pickle`] writes it.
//! [`analysis`] answers questions about a snapshot, [`whatif`] runs what a snapshot recorded under other settings.
//! [`validate`](mod@validate) checks a snapshot against the rules of the format, [`rewrite`] makes other snapshots
//! of a snapshot, and [`export`] writes it in the formats of other tools.
//! `ARCHITECTURE.md` tells the whole walk.
//!
//! # What it does not do
//!
//! It does not watch `malloc`, and it sees no Python frames. NVIDIA devices come
//! with the feature `cuda`; a C interface is the package `memreel-capi`. The host device needs Linux. Stacks have files and lines
//! only where the program has line tables: set `debug = "line-tables-only"` in the profile you ship.

mod sync;
mod event;
mod error;
mod inventory;
mod finding;
mod torch;
pub mod device;
mod stack;
pub mod recorder;
pub mod allocator;
mod buffer;
pub mod snapshot;
pub mod history;
pub mod pickle;
pub mod validate;
pub mod analysis;
pub mod rewrite;
pub mod export;
pub mod whatif;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod integrate;
mod reel;
mod process;
#[cfg(test)]
#[path = "../tests/it/stack/library.rs"]
mod library;
#[cfg(test)]
#[path = "../tests/it/random.rs"]
mod random;

#[doc(inline)]
pub use crate::{
    allocator::{Allocation, CachingAllocator, Settings},
    buffer::{Buffer, Element},
    error::{Error, OutOfMemory, Result},
    event::{Action, Address, DeviceId, PoolId, StreamId},
    inventory::{BlockState, PoolKind},
    process::{
        alloc, default_allocator, default_reel, dump_snapshot, empty_cache, max_memory_allocated,
        max_memory_reserved, mem_get_info, memory_allocated, memory_reserved, memory_stats, memory_summary,
        record_memory_history, reset_accumulated_memory_stats, reset_peak_memory_stats, save_on_oom, scope,
        set_per_process_memory_fraction, snapshot,
    },
    reel::{Builder, Reel},
    snapshot::Snapshot,
};

/// Compiles the README's code blocks in `cargo test --doc`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
