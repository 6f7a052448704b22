//! Places in a snapshot, as findings show them.

use std::fmt;

/// A segment: `segments[3]` or `host_segments[3]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentPlace {
    pub(super) is_host: bool,
    pub(super) index: usize,
}

impl SegmentPlace {
    pub(super) fn block(self, index: usize) -> BlockPlace {
        BlockPlace { segment: self, index }
    }
}

impl fmt::Display for SegmentPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = if self.is_host { "host_segments" } else { "segments" };
        write!(f, "{list}[{}]", self.index)
    }
}

/// A block: `segments[3].blocks[2]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockPlace {
    segment: SegmentPlace,
    index: usize,
}

impl fmt::Display for BlockPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.blocks[{}]", self.segment, self.index)
    }
}

/// A list of entries: `device_traces[0]` or `host_traces`.
#[derive(Clone, Copy, Debug)]
pub(super) enum TracePlace {
    Device(usize),
    Host,
}

impl TracePlace {
    pub(super) fn entry(self, index: usize) -> EntryPlace {
        EntryPlace { trace: self, index }
    }
}

impl fmt::Display for TracePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TracePlace::Device(device) => write!(f, "device_traces[{device}]"),
            TracePlace::Host => f.write_str("host_traces"),
        }
    }
}

/// An entry: `device_traces[0][17]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryPlace {
    trace: TracePlace,
    index: usize,
}

impl fmt::Display for EntryPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.trace, self.index)
    }
}
