//! Records the events of allocators: switched on and off, bounded, with or without stacks.
//!
//! A [`Recorder`] does not depend on a device or an allocator, so it can record for any. There are three ways
//! to use one:
//!
//! - A [`Reel`](crate::Reel) contains a recorder that is connected to its allocators; switch it with
//!   [`Reel::record_history`](crate::Reel::record_history).
//! - A [`Ledger`](../ledger/struct.Ledger.html) records the reports of another allocator and keeps the list of its blocks.
//! - A [`Track`] records single events for an allocator that keeps its own list of
//!   blocks.
//!
//! [`Recording`] has the options, under PyTorch's names. Recording cannot fail: events beyond
//! [`Recording::max_entries`] replace the oldest and are counted, and an address whose function cannot be named
//! is shown as a number.
//!
//! ```
//! use memreel::{Address, StreamId};
//! use memreel::recorder::{Context, Recording, Recorder};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("snapshot.pickle");
//! let recorder = Recorder::new();
//! recorder.record_history(&Recording::all().context(Context::Alloc).max_entries(100_000));
//! let ledger = recorder.ledger(0);
//! {
//!     let _step = recorder.scope("forward");
//!     ledger.alloc(Address(0x7f00_0000_0000), 1 << 20, StreamId::DEFAULT)?;
//! }
//! recorder.save(&path, [&ledger])?; // opens on pytorch.org/memory_viz
//! # Ok::<(), memreel::Error>(())
//! ```
//!
//! # How an event is recorded
//!
//! [`Track::record`] reads the mode (off: one load and one branch), encodes the event in 32 bytes and appends
//! it to a chunk that only the calling thread fills. A full chunk goes to the device's tape, which drops the
//! oldest ones. A snapshot cuts the tape at one time without stopping the threads and puts the events in order.

pub(crate) mod clock;
mod recording;
mod sample;
mod scope_names;
mod shared;
mod scope;
mod context;
mod lines;
mod tiling;
mod sums;
mod live_block;
mod live;
mod keeper;
pub(crate) mod in_file;
mod new_place;
mod tape;
mod open_chunk;
mod writer;
pub(crate) mod log;
mod tally;
mod mapped;
mod usage;
pub(crate) mod track;
mod own_work;
mod folding;
mod opening;
mod handle;
mod source;

pub use handle::{Recorder, StackCounts};
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
pub(crate) use tiling::tiled;
pub(crate) use track::Track;

/// What the room that reads tapes again needs of this one.
pub(crate) use self::{
    clock::{CALIBRATED_NS, Clock, Scale},
    context::EventContext,
    lines::Chunk,
    live::LiveState,
    opening::settings_of,
    sample::represented,
    scope_names::{Annotation, ScopeId},
    source::Events,
    tape::{DroppedEvents, past_cut},
    usage::Usage,
};
