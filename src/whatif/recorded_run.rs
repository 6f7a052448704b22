//! The recorded run: its setting, its peak and the addresses of its segments.

use std::collections::BTreeMap;

use crate::allocator::Settings;
use memreel_snapshot::{
    history::{ByDevice, reserved_at_start, reserved_peak},
    model::{TraceEntry, Value},
    words::{
        Action, Address, DeviceId, StreamId,
        torch::{LARGE_SEGMENT_BYTES, SMALL_SEGMENT_BYTES},
    },
};

/// The results of the recorded run, with which answers are compared.
#[derive(Clone, Debug)]
pub struct RecordedRun {
    conf: String,
    /// The options of `conf` that the simulated allocator supports.
    usable_conf: String,
    pub(super) collects_garbage: bool,
    pub(super) start_bytes: u64,
    pub(super) addresses: Addresses,
    /// The most bytes in segments at any time of the history.
    pub reserved_peak_bytes: u64,
    /// The number of segments and ranges of pages that were taken from the device.
    pub num_device_alloc: u64,
    /// The number of segments and ranges of pages that were returned to it.
    pub num_device_free: u64,
    /// The number of requests that failed.
    pub num_ooms: u64,
    warnings: Vec<String>,
}

/// The first addresses of segments and of expandable ranges, in the order of their allocation.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses {
    pub(super) segments: Vec<Address>,
    pub(super) ranges: Vec<Address>,
    /// The size of a device on which these ranges do not overlap; `None` if they do not limit it.
    pub(super) total_bytes: Option<u64>,
}

impl RecordedRun {
    pub(super) fn new(records: &ByDevice<'_>, device: DeviceId) -> RecordedRun {
        let snapshot = records.snapshot();
        let trace = snapshot.trace(device);
        let setting = |key| records.setting(key);
        let conf = setting("PYTORCH_CUDA_ALLOC_CONF").and_then(Value::as_text).map(|text| text.to_string());
        let conf = conf.unwrap_or_default();
        let (usable_conf, warnings) = usable(&conf);
        let threshold = setting("garbage_collection_threshold");
        let count = |actions: &[Action]| {
            trace.iter().filter(|entry| entry.action.is_some_and(|a| actions.contains(&a))).count() as u64
        };
        let segments = records.segments(device).map(|(_, segment)| segment);
        let start_bytes = reserved_at_start(trace, segments);
        RecordedRun {
            conf,
            usable_conf,
            collects_garbage: matches!(threshold, Some(Value::Float(threshold)) if *threshold > 0.0),
            start_bytes,
            addresses: addresses(trace),
            reserved_peak_bytes: reserved_peak(trace, start_bytes),
            num_device_alloc: count(&[Action::SegmentAlloc, Action::SegmentMap]),
            num_device_free: count(&[Action::SegmentFree, Action::SegmentUnmap]),
            num_ooms: count(&[Action::Oom]),
            warnings,
        }
    }

    /// Returns the settings text of the file; empty if there is none.
    #[must_use]
    pub fn conf(&self) -> &str {
        &self.conf
    }

    /// Returns the settings text without the options that a replay does not support, those of pinned host
    /// memory.
    #[must_use]
    pub fn usable_conf(&self) -> &str {
        &self.usable_conf
    }

    pub(super) fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// Returns the options of a recorded text that the parser accepts, and a warning about the others.
fn usable(conf: &str) -> (String, Vec<String>) {
    if conf.parse::<Settings>().is_ok() {
        return (conf.to_owned(), Vec::new());
    }
    let (known, unknown): (Vec<_>, Vec<_>) =
        options(conf).into_iter().partition(|option| option.parse::<Settings>().is_ok());
    let warning =
        format!("the recorded setting holds what is not known here, and left out: {}", unknown.join(","));
    let known = known.join(",");
    (if known.parse::<Settings>().is_ok() { known } else { String::new() }, vec![warning])
}

/// Returns the options of a settings text, each with its value. A list in brackets is one value.
pub(super) fn options(conf: &str) -> Vec<&str> {
    let (mut depth, mut start, mut options) = (0_i32, 0, Vec::new());
    for (at, c) in conf.char_indices().chain([(conf.len(), ',')]) {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth <= 0 || at == conf.len() => {
                options.push(&conf[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    options.retain(|option| !option.is_empty());
    options
}

/// An expandable range: each stream has one for small blocks and one for large ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RangeKey {
    stream: StreamId,
    is_small: bool,
}

/// Returns the addresses of a trace. A small request maps one small page at a time, and a large request
/// never maps a range of that size.
fn addresses(trace: &[TraceEntry]) -> Addresses {
    let mut all = Addresses::default();
    let mut mapped = BTreeMap::<RangeKey, u64>::new();
    for entry in trace {
        let is_small = entry.size % LARGE_SEGMENT_BYTES != 0;
        let key = RangeKey { stream: entry.stream, is_small };
        match entry.action {
            Some(Action::SegmentAlloc) => all.segments.push(entry.address),
            Some(Action::SegmentMap) => {
                let bytes = mapped.entry(key).or_default();
                if *bytes == 0 {
                    all.ranges.push(entry.address);
                }
                *bytes = bytes.saturating_add(entry.size);
            }
            Some(Action::SegmentUnmap) => {
                // Several small pages may be unmapped at once, and their size may be a multiple of a large page's.
                let of_small = RangeKey { is_small: true, ..key };
                let is_large = mapped.get(&key).is_some_and(|bytes| *bytes >= entry.size);
                let bytes = mapped.entry(if is_large { key } else { of_small }).or_default();
                *bytes = bytes.saturating_sub(entry.size);
            }
            _ => {}
        }
    }
    all.total_bytes = total_bytes(&all.ranges);
    all
}

/// Returns the size of the largest device on which the ranges do not overlap. A range is an eighth larger
/// than its device, in whole pages, so the two nearest ranges limit the device's size.
fn total_bytes(ranges: &[Address]) -> Option<u64> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let gap = sorted.windows(2).map(|pair| pair[1] - pair[0]).min()?;
    let pages = gap.saturating_sub(LARGE_SEGMENT_BYTES);
    Some((pages / 9 * 8 / SMALL_SEGMENT_BYTES * SMALL_SEGMENT_BYTES).max(SMALL_SEGMENT_BYTES))
}
