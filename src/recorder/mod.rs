//! Records the events of allocators: switched on and off, bounded, with or without stacks.
//!
//! A [`Recorder`] does not depend on a device or an allocator, so it can record for any. There are three ways
//! to use one:
//!
//! - A [`Reel`](crate::Reel) contains a recorder that is connected to its allocators; switch it with
//!   [`Reel::record_history`](crate::Reel::record_history).
//! - A [`Ledger`] records the reports of another allocator and keeps the list of its blocks.
//! - A [`Track`] records single events for an allocator that keeps its own list of
//!   blocks.
//!
//! [`Recording`] has the options, under PyTorch's names. Recording cannot fail: events beyond
//! [`Recording::max_entries`] replace the oldest and are counted, and an address whose function cannot be named
//! is shown as a number.
//!
//! ```
//! use memreel::{Address, DeviceId, StreamId, pickle, snapshot};
//! use memreel::recorder::{Context, Recording, Recorder};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("snapshot.pickle");
//! let recorder = Recorder::new();
//! recorder.record_history(&Recording::all().context(Context::Alloc).max_entries(100_000));
//! let ledger = recorder.ledger(DeviceId(0));
//! {
//!     let _step = recorder.scope("forward");
//!     ledger.alloc(Address(0x7f00_0000_0000), 1 << 20, StreamId::DEFAULT);
//! }
//! let seen = snapshot::collect_lazily(&recorder, &[&ledger], snapshot::Dialect::default());
//! pickle::save(&seen, &path)?; // opens on pytorch.org/memory_viz
//! # Ok::<(), memreel::Error>(())
//! ```
//!
//! # How an event is recorded
//!
//! [`Track::record`] reads the mode (off: one load and one branch), encodes the event in 32 bytes and appends
//! it to a chunk that only the calling thread fills. A full chunk goes to the device's tape, which drops the
//! oldest ones. A snapshot cuts the tape at one time without stopping the threads and puts the events in order.

mod clock;
mod recording;
mod sample;
mod scope_names;
mod shared;
mod scope;
mod context;
mod lines;
mod chunk;
#[cfg(loom)]
pub(crate) mod explored;
mod tiling;
#[cfg(not(loom))]
mod sums;
#[cfg(not(loom))]
mod live;
#[cfg(not(loom))]
mod keeper;
#[cfg(not(loom))]
mod in_file;
mod new_place;
mod tape;
mod open_chunk;
mod writer;
mod log;
mod tally;
mod annotation_ring;
mod mapped;
mod usage;
pub(crate) mod track;
mod own_work;
mod contradiction;
mod ledger_state;
mod ledger;
#[cfg(not(loom))]
mod folding;
#[cfg(not(loom))]
mod opening;
mod handle;
mod source;
#[cfg(not(loom))]
mod recovered;
#[cfg(all(target_os = "linux", not(loom)))]
mod followed;
#[cfg(all(target_os = "linux", not(loom)))]
mod follow;
#[cfg(all(target_os = "linux", not(loom)))]
mod outside;
#[cfg(all(target_os = "linux", not(loom)))]
mod tape_keeper;
#[cfg(all(target_os = "linux", not(loom)))]
pub(crate) use follow::Follow;
#[cfg(all(target_os = "linux", not(loom)))]
pub(crate) use followed::{Counts, Followed, Held};
#[cfg(all(target_os = "linux", not(loom)))]
pub use outside::Onlooker;
#[cfg(not(loom))]
pub(crate) use recovered::{PastInventory, PastTape, restore};
#[cfg(all(target_os = "linux", not(loom)))]
pub use tape_keeper::{RoomMaker, TapeKeeper};

pub use contradiction::{Contradiction, Reason};
pub use handle::{Recorder, StackCounts};
pub use ledger::Ledger;
#[doc(inline)]
pub use memreel_snapshot::words::sample_weight;
pub use recording::{Context, Enabled, Recording, StackKind};
pub use scope::Scope;

pub(crate) use clock::Ticks;
pub(crate) use context::ContextId;
pub(crate) use log::{Cut, Entry, Log, LogTables};
pub(crate) use mapped::MappedRange;
pub(crate) use own_work::OwnWork;
pub(crate) use source::{Facts, Source};
pub(crate) use tally::Tally;
pub(crate) use track::Track;
