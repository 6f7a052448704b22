//! Which releases of PyTorch can have written a snapshot, by its keys (`docs/snapshot-format.md` 1.11).

use std::fmt;

use crate::model::{Shape, Snapshot};

/// Where a key is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    Segment,
    Entry,
    Setting,
}

use Place::{Entry, Segment, Setting, Top};

/// Keys that every file has from a release on: 2.x, the place and the key.
const SINCE: [(u8, Place, &str); 10] = [
    (1, Segment, "segment_pool_id"),
    (2, Entry, "time_us"),
    (3, Top, "allocator_settings"),
    (5, Top, "external_annotations"),
    (8, Entry, "compile_context"),
    (9, Setting, "graph_capture_record_stream_reuse"),
    (10, Entry, "user_metadata"),
    (12, Entry, "pool_id"),
    (13, Setting, "max_round_threshold"),
    (14, Top, "host_segments"),
];

/// The releases 2.x that can have written a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Releases {
    /// The first, as the number behind `2.`.
    pub first: u8,
    /// The last; `None` if the keys allow every later one.
    pub last: Option<u8>,
}

impl Releases {
    /// Reads the keys of a snapshot. `None` if memreel wrote it, or if it has neither segments nor events.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Option<Releases> {
        if snapshot.allocator_settings().is_some_and(|settings| settings.get("memreel_version").is_some()) {
            return None;
        }
        let entry =
            snapshot.device_traces.iter().flatten().next().map(|entry| snapshot.shapes.get(entry.shape));
        let segment = snapshot.segments.first().map(|segment| snapshot.shapes.get(segment.shape));
        if entry.is_none() && segment.is_none() {
            return None;
        }
        let has = |(_, place, key): &(u8, Place, &str)| match place {
            Top => Some(has_key(&snapshot.shape, key)),
            Entry => entry.map(|shape| has_key(shape, key)),
            Segment => segment.map(|shape| has_key(shape, key)),
            Setting => snapshot.allocator_settings().map(|settings| settings.get(key).is_some()),
        };
        let first = SINCE.iter().rev().find(|key| has(key) == Some(true)).map_or(0, |(since, ..)| *since);
        let missing = SINCE.iter().find(|key| key.0 > first && has(key) == Some(false));
        Some(Releases { first, last: missing.map(|(since, ..)| since - 1) })
    }
}

fn has_key(shape: &Shape, key: &str) -> bool {
    shape.slots.iter().any(|(known, _)| &**known == key)
}

impl fmt::Display for Releases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last {
            Some(last) if last == self.first => write!(f, "PyTorch 2.{last}"),
            Some(last) => write!(f, "PyTorch 2.{} to 2.{last}", self.first),
            None => write!(f, "PyTorch 2.{} or later", self.first),
        }
    }
}
