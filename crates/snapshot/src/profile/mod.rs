//! Heap profiles in the format of pprof, read as snapshots: what JAX, Go and jemalloc write, and memreel's own export.
//!
//! A profile has the live bytes of each stack and no events. As a snapshot it is one segment for each device, with a
//! block for each live object, so that every question about a moment has an answer.
//!
//! ```no_run
//! let profile = std::fs::read("memory.prof")?;
//! if memreel_snapshot::profile::is_profile(&profile) {
//!     let snapshot = memreel_snapshot::profile::from_slice(&profile)?;
//!     println!("{} devices", snapshot.segments.len());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod made;
mod message;
mod unpacked;

use prost::Message as _;

use crate::{
    model::Snapshot,
    words::{Error, Result},
};

/// Returns whether bytes start like a profile, or like one compressed by gzip. The first few KiB are enough.
#[must_use]
pub fn is_profile(head: &[u8]) -> bool {
    unpacked::head(head).is_some_and(|head| message::is_beginning(&head))
}

/// Reads a profile, which gzip may have compressed.
///
/// # Errors
/// [`is_malformed`](crate::words::Error::is_malformed) if the bytes are damaged, and an error that says so if they are a profile of
/// something else than live memory, such as processor time.
pub fn from_slice(bytes: &[u8]) -> Result<Snapshot> {
    let bytes = unpacked::whole(bytes)?;
    let profile = message::Profile::decode(&*bytes)
        .map_err(|error| Error::foreign(format!("not a readable pprof profile: {error}")))?;
    made::snapshot(&profile)
}
