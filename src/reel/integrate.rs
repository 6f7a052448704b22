//! Connects your own allocators and interpreters to a recorder.
//!
//! Most programs do not need this module: not those that use memreel's own allocator or a
//! [`Ledger`](../ledger/struct.Ledger.html), or wrap their allocator in [`Heap`](crate::Heap) or
//! [`Recorded`](crate::Recorded). You need it if your allocator keeps a list of its blocks, or if your interpreter has
//! stacks that machine code does not show.
//!
//! | you have | you implement or call |
//! |---|---|
//! | an allocator with a lock and a list of its blocks | [`Track::record`] for each event, [`Inventory`] for snapshots |
//! | a source of events without a lock | [`Track::record_unlocked`] |
//! | an interpreter | [`FrameSource`], given to [`Recorder::set_frame_source`](crate::recorder::Recorder::set_frame_source) |
//! | CPython in your process | [`PythonFrames`], set in the same way |
//! | a name for what your code allocates | [`mark`] around it, and the source [`MarkedFrames`] |
//! | a kind of memory that memreel does not support | [`Device`] |
//! | a library that others link or preload | [`variable`], which is off in programs with more rights than their caller |
//! | names of files that the processes of a run share | [`rank`], [`host`], [`time_text`] |
//! | a library that reports to ledgers, follows `MEMREEL` and writes snapshots | [`Session`] |
//! | a device that reports how much of its memory is used | [`UsageReport`], given to [`Recorder::report_usage`](crate::recorder::Recorder::report_usage) |
//!
//! # Duties of an allocator
//!
//! - Capture the stack ([`Track::stack_of_alloc`]) before you take your lock, and keep the [`StackId`] with the
//!   block: its free needs it ([`StackId::of_free`]).
//! - Record an event while you have your lock. The order of the calls is the order of the trace.
//! - Record a free before the memory can be allocated again.
//! - While [`Inventory::inspect`] runs, record no event from another thread: your lock, held during the call,
//!   ensures that. This is why the trace and the segments of a snapshot agree.
//! - If the process may fork, pass your lock to [`hold_at_forks`]; otherwise a child may find it locked for ever.
//! - In a signal handler, [`Track::record_unlocked`] and a capture may interrupt any code of memreel: an event that
//!   interrupts the recorder's own work on the same thread has no stack, or is not recorded. A request to an allocator
//!   may not interrupt one to the same allocator. memreel may allocate on the host's heap, which a handler must not do
//!   where it interrupted `malloc`.
//! - In the process's own `GlobalAlloc`, call [`Track::record_unlocked`], and hold no lock during the call: memreel
//!   allocates while it captures a stack and while it records, so your `alloc` is called again inside, and would wait
//!   for its own lock. What memreel allocates for itself is not recorded. `tests/global_allocator.rs` in the repository
//!   is such an allocator.
//!
//! # Example
//!
//! A snapshot of an allocator with one segment of one block:
//!
//! ```
//! use std::sync::Mutex;
//! use memreel::{Action, Address, BlockState, DeviceId, PoolId, PoolKind, StreamId};
//! use memreel::integrate::{Event, Inventory, InventoryBlock, InventorySegment, Track};
//! use memreel::recorder::{Recording, Recorder};
//! use memreel::snapshot::{Dialect, collect};
//!
//! struct Arena {
//!     track: Track,
//!     segments: Mutex<Vec<InventorySegment>>,
//! }
//!
//! impl Arena {
//!     fn grow(&self, address: Address, size_bytes: u64) {
//!         let stack = self.track.stack_of_segment();
//!         let mut segments = self.segments.lock().unwrap();
//!         let state = BlockState::Inactive;
//!         let block = InventoryBlock { address, size_bytes, requested_bytes: 0, state, stack };
//!         let (stream, pool) = (StreamId::DEFAULT, PoolId::DEFAULT);
//!         segments.push(InventorySegment {
//!             address,
//!             size_bytes,
//!             stream,
//!             kind: PoolKind::Large,
//!             pool,
//!             is_expandable: false,
//!             stack,
//!             blocks: vec![block],
//!         });
//!         self.track.record(Event { action: Action::SegmentAlloc, address, size_bytes, stream, pool, stack });
//!     }
//! }
//!
//! impl Inventory for Arena {
//!     fn device(&self) -> DeviceId {
//!         self.track.device()
//!     }
//!
//!     fn inspect(&self, look: &mut dyn FnMut(&[InventorySegment])) {
//!         look(&self.segments.lock().unwrap());
//!     }
//! }
//!
//! let recorder = Recorder::new();
//! recorder.record_history(&Recording::all());
//! let arena = Arena { track: recorder.track(DeviceId(0)), segments: Mutex::default() };
//! arena.grow(Address(0x10_0000), 4 << 20);
//! let snapshot = collect(&recorder, [&arena], Dialect::default());
//! assert_eq!(snapshot.segments[0].total_size, 4 << 20);
//! ```
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex};

/// Holds your allocator's lock while the process forks, so that the child finds it free.
///
/// A child of `fork` has one thread; a lock that another thread had at that moment would stay locked for ever.
/// memreel takes its own locks before a fork and releases them after it in both processes. This adds yours, which is
/// taken before those of the recorder, as it is when you record an event.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// let next = Arc::new(Mutex::new(0x1000_u64));
/// memreel::integrate::hold_at_forks(&next);
/// ```
pub fn hold_at_forks<T: Send + 'static>(lock: &Arc<Mutex<T>>) {
    crate::process::fork::register(crate::process::fork::Level::Allocator, lock);
}

/// Calls `work` in each later child of `fork`, before the child's `fork` returns and while no other thread exists.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// static IS_CHILD: AtomicBool = AtomicBool::new(false);
/// memreel::integrate::call_in_children(|| IS_CHILD.store(true, Ordering::Relaxed));
/// ```
pub fn call_in_children(work: fn()) {
    crate::process::fork::register_call(work);
}

/// Registers memreel's fork handlers before it returns. Handlers registered later are called before them, and a thread
/// that such a handler waits for does not find memreel's locks taken.
///
/// ```
/// memreel::integrate::begin_handlers();
/// ```
pub fn begin_handlers() {
    crate::process::fork::install();
}

/// Returns whether this thread may record: not within the recorder's own work, nor in a child whose fork bypassed
/// memreel's handlers; such a child is counted.
///
/// ```
/// assert!(memreel::integrate::may_record());
/// ```
#[must_use]
pub fn may_record() -> bool {
    crate::process::guard::Guard::enter().is_some()
}

#[doc(inline)]
pub use super::session::Session;
#[cfg(target_os = "linux")]
#[doc(inline)]
pub use crate::process::own_pages::OwnPages;
#[cfg(target_os = "linux")]
#[doc(inline)]
pub use crate::process::{beside::Beside, inherited::Inherited};
#[doc(inline)]
pub use crate::process::{
    counters::count_unrecorded,
    environment::variable,
    host::host,
    notice::print as notice,
    own_memory,
    rank::{n_ranks, rank},
    time::{duration, time_text},
    uncancelled::Uncancelled,
};
pub use crate::{
    device::{Device, Mark},
    heap::{BlockMove, MallocReports},
    python::{MarkedFrames, PythonFrames, StackMark, mark},
    recorder::{
        clock::{TICK, tick},
        track::Track,
    },
    stack::{
        FrameSource, SourceCode, SourceFrame, StackMethod, name_addresses, set_stack_method, stack_method,
    },
};
#[doc(inline)]
pub use memreel_snapshot::words::{
    Event, Inventory, InventoryBlock, InventorySegment, Refusal, SettingsReport, StackId, UsageReport,
};

pub use crate::{
    process::fork::{AllocatorHandlers, register_allocator},
    tape::{FileSpace, take_tape_name},
};
