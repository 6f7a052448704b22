//! The metrics of a device: their names, their meanings and their values.

#![forbid(unsafe_code)]

use crate::run::figures::Figures;

/// A value of a device, with its meaning.
pub(super) struct Family<T> {
    /// Without the unit and the ending of counters.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) is_bytes: bool,
    /// The number, if the device has it.
    pub(super) of: fn(&Figures) -> Option<T>,
}

const fn bytes<T>(name: &'static str, help: &'static str, of: fn(&Figures) -> Option<T>) -> Family<T> {
    Family { name, help, is_bytes: true, of }
}

const fn count<T>(name: &'static str, help: &'static str, of: fn(&Figures) -> Option<T>) -> Family<T> {
    Family { name, help, is_bytes: false, of }
}

/// Values that rise and fall, of any sign.
pub(super) const GAUGES: [Family<i64>; 9] = [
    bytes("used", "Bytes that the device reports as used, by all processes", |of| of.used_bytes.map(signed)),
    bytes("used_peak", "Most bytes that the device reported as used", |of| of.used_peak_bytes.map(signed)),
    bytes("limit", "Total bytes of the device", |of| of.limit_bytes.map(signed)),
    bytes("allocated", "Bytes requested by live blocks", |of| Some(signed(of.live_bytes))),
    bytes("allocated_peak", "Most bytes requested by live blocks at any moment", |of| {
        Some(signed(of.live_peak_bytes))
    }),
    bytes("reserved", "Bytes in segments of an allocator", |of| reserved(of).map(signed)),
    bytes("unused", "Bytes in segments that no live block requested", |of| {
        Some(signed(reserved(of)?.saturating_sub(of.live_bytes)))
    }),
    bytes("growth", "Bytes requested by live blocks, minus those of a minute ago", |of| {
        Some(of.totals.grown_in_a_minute)
    }),
    count("blocks", "Blocks in use", |of| Some(signed(of.n_live))),
];

/// Values that only rise, since the recording started.
pub(super) const COUNTERS: [Family<u64>; 5] = [
    count("requests", "Successful requests", |of| Some(of.totals.n_allocs)),
    bytes("requested", "Bytes of successful requests", |of| Some(of.totals.allocated_bytes)),
    count("frees", "Blocks that were freed", |of| Some(of.totals.n_frees)),
    count("failed_requests", "Requests that failed", |of| Some(of.totals.n_ooms)),
    count(
        "catch_ups",
        "Times that events were dropped before they were read; other counters miss them",
        |of| Some(of.n_anew),
    ),
];

/// Returns the bytes of the segments; none of a device that has none, such as a heap.
fn reserved(figures: &Figures) -> Option<u64> {
    Some(figures.reserved_bytes).filter(|bytes| *bytes > 0)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
