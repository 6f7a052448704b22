//! Reads GPU memory snapshots, and answers questions about them.
//!
//! A snapshot is the pickle that PyTorch's `_dump_snapshot()` writes, and that memreel writes: segments, blocks, and a trace
//! of events with their stacks. [`pickle::load`] reads one of any release; [`analysis::DeviceHistory`] answers.
//!
//! ```
//! use memreel_snapshot::{DeviceId, analysis::{By, DeviceHistory}, pickle};
//!
//! let snapshot = pickle::load("examples/oom_fragment.pickle")?;
//! let history = DeviceHistory::new(&snapshot, DeviceId(0));
//! let peak = history.peak();
//! println!("{} bytes in {} blocks at the peak, of which", peak.active_bytes, peak.n_blocks);
//! for group in history.top(peak.moment, By::Stack).iter().take(3) {
//!     println!("{} bytes: {:?}", group.bytes, group.site);
//! }
//! assert!(history.oom().is_some(), "a request failed");
//! # Ok::<(), memreel_snapshot::Error>(())
//! ```
//!
//! # Modules
//!
//! Each depends only on those above it.
//!
//! | module | what it does |
//! |---|---|
//! | [`words`] | the words of all others: events, addresses, devices, sizes, errors |
//! | [`model`] | the records of a file, as they are written, unknown keys included |
//! | [`log`] | reads the messages of failed requests in the log of a program |
//! | [`history`] | what a trace means: final blocks, lives, scopes, and how far a file can be trusted |
//! | [`pickle`] | reads and writes files |
//! | [`profile`] | reads heap profiles of pprof as snapshots |
//! | [`validate`](mod@validate) | checks a file against the rules of the format |
//! | [`analysis`] | answers questions: the peak, top stacks, leaks, fragmentation, a failed request, owners, ranks |
//! | [`rewrite`] | derives snapshots: smaller, repaired, merged, divided |
//! | [`join`] | puts PyTorch's blocks into the driver's segments |
//! | [`export`] | writes the formats of other tools |

pub mod words;
pub mod model;
pub mod log;
pub mod place;
pub mod history;
pub mod pickle;
pub mod profile;
pub mod validate;
pub mod analysis;
pub mod rewrite;
pub mod join;
pub mod export;

#[doc(inline)]
pub use model::Snapshot;
#[doc(inline)]
pub use words::{
    Action, Address, BlockState, DeviceId, Error, OomVerdict, OutOfMemory, PoolId, PoolKind, Result, StreamId,
};

/// Compiles the code blocks of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
