//! Why a device has no history, or hardly any, and which call was missing or too late.

use std::{collections::BTreeSet, fmt};

use super::{by_device::ByDevice, reserved::reserved_at_start};
use crate::{
    model::{Field, Segment, Snapshot, StackTable},
    words::DeviceId,
};

/// Why a file has no history of a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Absence {
    /// There is no memory either, because the process had not used the device.
    Unused,
    /// The file has no traces at all, like the result of `memory_snapshot()`.
    SegmentsOnly,
    /// Blocks have no stacks: PyTorch's history was off.
    Off,
    /// Blocks have stacks, but there is no event: only the state was recorded, or the traces were left out of the file.
    StateOnly,
    /// The same in a format before PyTorch 2.11's, which does not leave out events.
    Erased,
    /// There is one event, and memory from before it: the ring held one, or recording began right before the end.
    OneEvent,
    /// memreel's history was off.
    NotRecorded,
    /// The file is a profile, which has what is live.
    Profile,
}

impl Absence {
    /// Returns why a device has no history; `None` if it has one, or if all of its events were recorded and there were
    /// none.
    pub(crate) fn of(records: &ByDevice<'_>, device: DeviceId) -> Option<Absence> {
        let snapshot = records.snapshot();
        let entries = snapshot.trace(device);
        let segments = || records.segments(device).map(|(_, segment)| segment);
        let (has_segments, is_torch) =
            (segments().next().is_some(), records.setting("memreel_version").is_none());
        match entries.len() {
            0 if records.setting("memreel_profile").is_some() => Some(Absence::Profile),
            0 if records.keeps_events() && !has_segments => None,
            0 if !is_torch => Some(Absence::NotRecorded),
            0 if !has_segments => Some(Absence::Unused),
            0 if !snapshot.shape.has(Field::DeviceTraces) => Some(Absence::SegmentsOnly),
            // Every file has this setting from PyTorch 2.9 on.
            0 if segments().any(has_stack) => match records.setting("graph_capture_record_stream_reuse") {
                Some(_) => Some(Absence::StateOnly),
                None => Some(Absence::Erased),
            },
            0 => Some(Absence::Off),
            // Of pinned host memory no ring of one event is known.
            1 if is_torch && device != DeviceId::HOST && reserved_at_start(entries, segments()) > 0 => {
                Some(Absence::OneEvent)
            }
            _ => None,
        }
    }

    /// Returns why a file has no history of any device; `None` if it has one.
    #[must_use]
    pub fn of_file(snapshot: &Snapshot) -> Option<Absence> {
        let records = ByDevice::new(snapshot);
        let of_segments = snapshot.segments.iter().map(|segment| segment.device);
        let traced = DeviceId::first(snapshot.device_traces.len().max(1));
        let of_host = snapshot.has_host().then_some(DeviceId::HOST);
        let devices: BTreeSet<DeviceId> = of_segments.chain(traced).chain(of_host).collect();
        let all: Option<Vec<Absence>> =
            devices.into_iter().map(|device| Absence::of(&records, device)).collect();
        let all = all?;
        // The devices that were not used say nothing about the others.
        all.iter().find(|absence| **absence != Absence::Unused).or(all.first()).copied()
    }
}

fn has_stack(segment: &Segment) -> bool {
    let blocks = segment.blocks.iter().map(|block| block.stack);
    blocks.chain([segment.stack]).flatten().any(|stack| stack != StackTable::EMPTY)
}

impl fmt::Display for Absence {
    /// Prints what was missing, and how to record it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CALL: &str = "torch.cuda.memory._record_memory_history";
        match self {
            Absence::Unused => f.write_str(
                "no history and no memory: the process that wrote the file had not used the device; write it in the \
                 process that does (a worker, not its parent), after its first tensor",
            ),
            Absence::SegmentsOnly => f.write_str(
                "no history: the file only has segments; write it with torch.cuda.memory._dump_snapshot",
            ),
            Absence::Off => write!(f, "no history: call {CALL}() before the model is built"),
            Absence::StateOnly | Absence::Erased => {
                let left_out = match self {
                    Absence::Erased => "",
                    _ => ", or PyTorch 2.11 or later left the events out (include_traces=False)",
                };
                write!(
                    f,
                    "no events: recording was stopped before the file was written, which erases the history (dump first, then \
                     call {CALL}(enabled=None)), or enabled=\"state\" only kept the state (call \
                     {CALL}(enabled=\"all\") before the \
                     model is built){left_out}"
                )
            }
            Absence::OneEvent => write!(
                f,
                "one event: recording was switched on with {CALL}(True), which keeps one event in every version, or too late; \
                 before the model is built, call {CALL}(enabled=\"all\") (in PyTorch 2.0 {CALL}(True, \
                 trace_alloc_max_entries=100000))"
            ),
            Absence::NotRecorded => f.write_str("no history was recorded"),
            Absence::Profile => f.write_str("no events: a profile only has the live bytes of each stack at \
                                             one moment"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absence(json: &str) -> Option<Absence> {
        Absence::of_file(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn the_file_shows_what_was_missing() {
        let segment = |stack: &str| {
            format!(
                r#"{{"device": 0, "address": 4096, "total_size": 512, "blocks": [{{"address": 4096, "size": 512,
                    "requested_size": 512, "state": "active_allocated", "frames": [{stack}]}}]}}"#
            )
        };
        let framed = segment(r#"{"name": "f", "filename": "a.py", "line": 1}"#);
        let event = |action: &str, bytes: u64| {
            format!(r#"{{"action": "{action}", "addr": 4096, "size": {bytes}, "stream": 0}}"#)
        };
        let file = |segments: &str, traces: &str| {
            format!(r#"{{"segments": [{segments}], "device_traces": [{traces}]}}"#)
        };
        let bare = segment("");
        for (json, expected) in [
            (file("", "[], []"), Some(Absence::Unused)),
            (file("", ""), Some(Absence::Unused)),
            (format!("[{bare}]"), Some(Absence::SegmentsOnly)),
            (file(&bare, "[], []"), Some(Absence::Off)),
            (file(&framed, "[]"), Some(Absence::Erased)),
            (
                file(&framed, "[]").replacen(
                    '{',
                    r#"{"allocator_settings": {"graph_capture_record_stream_reuse": false}, "#,
                    1,
                ),
                Some(Absence::StateOnly),
            ),
            (file(&bare, &format!("[{}]", event("segment_free", 9))), Some(Absence::OneEvent)),
            (file(&bare, &format!("[{}]", event("segment_alloc", 512))), None),
            (file("", &format!("[], [{}]", event("alloc", 9))), None),
        ] {
            assert_eq!(absence(&json), expected, "{json}");
        }
    }
}
