//! Determines which PyTorch releases can have written a snapshot, by its keys (`docs/snapshot-format.md` 1.11).

use std::fmt;

use crate::model::{Shape, Snapshot, TopLevel};

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
    /// The first release, as the number after `2.`.
    pub first: u8,
    /// The last release; `None` if the keys allow every later one.
    pub last: Option<u8>,
}

impl Releases {
    /// Reads the keys of a snapshot. `None` if memreel wrote or derived it, if it has neither segments nor events, or
    /// if it lacks a key of an earlier release, so that another program wrote it.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Option<Releases> {
        let is_own =
            |key: &&str| snapshot.allocator_settings().is_some_and(|settings| settings.get(key).is_some());
        if ["memreel_version", "memreel_profile"].iter().any(is_own) {
            return None;
        }
        let entry =
            snapshot.device_traces.iter().flatten().next().map(|entry| snapshot.shapes.get(entry.shape));
        let segment = snapshot.segments.first().map(|segment| snapshot.shapes.get(segment.shape));
        if entry.is_none() && segment.is_none() {
            return None;
        }
        // Only the segments alone, as `memory_snapshot()` returns them, have no other top-level keys.
        let has_top = snapshot.top_level != TopLevel::SegmentList;
        let has = |(_, place, key): &(u8, Place, &str)| match place {
            Top if !has_top => None,
            Top => Some(has_key(&snapshot.shape, key)),
            Entry => entry.map(|shape| has_key(shape, key)),
            Segment => segment.map(|shape| has_key(shape, key)),
            Setting => snapshot.allocator_settings().map(|settings| settings.get(key).is_some()),
        };
        let first = SINCE.iter().rev().find(|key| has(key) == Some(true)).map_or(0, |(since, ..)| *since);
        if SINCE.iter().any(|key| key.0 < first && has(key) == Some(false)) {
            return None;
        }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A file with an entry that has these keys in addition to those of PyTorch 2.0, and with top-level keys.
    fn releases(keys: &[&str], top: &[&str]) -> Option<String> {
        let mut entry = json!({"action": "alloc", "addr": 4096, "size": 512, "stream": 0});
        keys.iter().for_each(|key| entry[key] = json!(1));
        let mut file = json!({"segments": [], "device_traces": [[entry]]});
        top.iter().for_each(|key| file[key] = json!([]));
        if top.contains(&"allocator_settings") {
            file["allocator_settings"] = json!({});
        }
        let snapshot: Snapshot = serde_json::from_value(file).unwrap();
        Releases::of(&snapshot).map(|releases| releases.to_string())
    }

    /// What `memory_snapshot()` returns has no keys of a later release.
    #[test]
    fn segments_alone_are_of_any_later_release() {
        let segment =
            json!({"device": 0, "address": 4096, "total_size": 512, "segment_pool_id": [0, 0], "blocks": []});
        let of = |file: serde_json::Value| {
            Releases::of(&serde_json::from_value(file).unwrap()).map(|releases| releases.to_string())
        };
        assert_eq!(of(json!([segment])).unwrap(), "PyTorch 2.1 or later");
        assert_eq!(of(json!({"segments": [segment], "device_traces": []})).unwrap(), "PyTorch 2.1 to 2.2");
    }

    #[test]
    fn keys_tell_the_release() {
        assert_eq!(releases(&[], &[]).unwrap(), "PyTorch 2.0 to 2.1");
        assert_eq!(releases(&["time_us"], &[]).unwrap(), "PyTorch 2.2");
        let top = ["allocator_settings", "external_annotations"];
        assert_eq!(releases(&["time_us"], &top).unwrap(), "PyTorch 2.5 to 2.7");
        assert_eq!(releases(&["time_us", "compile_context"], &top[1..]), None, "settings are missing");
    }
}
