//! `runs`: a row for each device of a file, with what was recorded and the highest figures.

use datafusion::arrow::array::ArrayRef;
use memreel_snapshot::{
    Action, DeviceId, Snapshot,
    analysis::{DeviceHistory, Histories, Totals, devices},
};

use crate::{
    columns::{Column, Kind, Rows, column, costly, integers, texts, unsigned},
    sink::{Sink, Stopped},
};

pub(super) const COLUMNS: &[Column] = &[
    column("device", Kind::Integer, "the device's number; null in a file without memory"),
    column("host", Kind::Text, "the key `host` or `hostname` of the file, which a program may add"),
    column("settings", Kind::Text, "`allocator_settings`, as JSON"),
    column("events", Kind::Unsigned, "the number of its events"),
    column("first_us", Kind::Integer, "the time of the first event"),
    column("last_us", Kind::Integer, "the time of the last event"),
    column("ooms", Kind::Unsigned, "the number of `oom` events"),
    column("segments", Kind::Unsigned, "the number of segments at the end"),
    costly("allocations", Kind::Unsigned, "the number of blocks that were ever in use"),
    costly(
        "peak_bytes",
        Kind::Unsigned,
        "requested bytes of the blocks in use at the peak, as in `memreel top`",
    ),
    costly("peak_event", Kind::Unsigned, "the event after which that was; null before the first"),
    costly("peak_us", Kind::Integer, "the time of that event"),
    costly("peak_reserved_bytes", Kind::Unsigned, "the most bytes that were reserved from the device"),
    costly(
        "end_allocated_bytes",
        Kind::Unsigned,
        "requested bytes of the blocks that the program holds at the end",
    ),
    costly("end_active_bytes", Kind::Unsigned, "these, and those of blocks whose free waits for a stream"),
    costly("end_reserved_bytes", Kind::Unsigned, "the bytes that are reserved from the device at the end"),
    costly("end_blocks", Kind::Unsigned, "the number of blocks in use at the end"),
];

/// A device of a file, with its figures.
#[derive(Clone, Debug)]
struct Run {
    device: Option<DeviceId>,
    events: usize,
    times_us: Option<(i64, i64)>,
    ooms: usize,
    segments: usize,
    figures: Figures,
}

/// What takes a look at every block.
#[derive(Clone, Debug, Default)]
struct Figures {
    allocations: usize,
    peak: Totals,
    peak_us: Option<i64>,
    peak_reserved_bytes: u64,
    end: Totals,
}

impl Figures {
    fn of(history: &DeviceHistory<'_>) -> Figures {
        let peak = history.peak();
        let entry = peak.moment.entry().and_then(|entry| history.entries().get(entry));
        Figures {
            allocations: history.lives().len(),
            peak,
            peak_us: entry.map(|entry| entry.time_us),
            peak_reserved_bytes: history.highest(|totals| totals.reserved_bytes).reserved_bytes,
            end: history.totals_at(history.end()),
        }
    }
}

struct Runs<'a>(&'a Snapshot);

impl Rows for Runs<'_> {
    type Row = Run;

    fn column(&self, name: &str, rows: &[Run]) -> ArrayRef {
        let number = |of: fn(&Run) -> usize| unsigned(rows, move |run| Some(of(run) as u64));
        let bytes = |of: fn(&Figures) -> u64| unsigned(rows, move |run| Some(of(&run.figures)));
        match name {
            "device" => integers(rows, |run| run.device.map(|device| device.0)),
            "host" => {
                texts(rows, |_| ["host", "hostname"].into_iter().find_map(|key| self.0.shape.text(key)))
            }
            "settings" => texts(rows, |_| {
                self.0.allocator_settings().and_then(|settings| serde_json::to_string(settings).ok())
            }),
            "events" => number(|run| run.events),
            "first_us" => integers(rows, |run| run.times_us.map(|(first, _)| first)),
            "last_us" => integers(rows, |run| run.times_us.map(|(_, last)| last)),
            "ooms" => number(|run| run.ooms),
            "segments" => number(|run| run.segments),
            "allocations" => number(|run| run.figures.allocations),
            "peak_bytes" => bytes(|figures| figures.peak.active_bytes),
            "peak_event" => unsigned(rows, |run| run.figures.peak.moment.entry().map(|entry| entry as u64)),
            "peak_us" => integers(rows, |run| run.figures.peak_us),
            "peak_reserved_bytes" => bytes(|figures| figures.peak_reserved_bytes),
            "end_allocated_bytes" => bytes(|figures| figures.end.allocated_bytes),
            "end_active_bytes" => bytes(|figures| figures.end.active_bytes),
            "end_reserved_bytes" => bytes(|figures| figures.end.reserved_bytes),
            "end_blocks" => bytes(|figures| figures.end.n_blocks as u64),
            other => unreachable!("{other} is not a column of runs"),
        }
    }
}

/// Hands out the devices of a file; a file without memory has one row, so that every file has one.
pub(super) fn read(snapshot: &Snapshot, sink: &mut Sink<'_>) -> Result<(), Stopped> {
    let is_wanted = COLUMNS.iter().any(|column| column.is_costly && sink.wants(column.name));
    let histories = Histories::new(snapshot);
    // Pinned host memory is no device of a run.
    let mut runs: Vec<Run> = devices(snapshot)
        .into_iter()
        .filter(|device| device.index().is_some())
        .map(|device| {
            let figures = if is_wanted { Figures::of(&histories.of(device)) } else { Figures::default() };
            Run::new(snapshot, device, figures)
        })
        .collect();
    if runs.is_empty() {
        let figures = Figures::default();
        runs.push(Run { device: None, events: 0, times_us: None, ooms: 0, segments: 0, figures });
    }
    sink.counters.events.add(snapshot.n_events());
    sink.take(&Runs(snapshot), runs)
}

impl Run {
    fn new(snapshot: &Snapshot, device: DeviceId, figures: Figures) -> Run {
        let entries = snapshot.trace(device);
        let times_us = entries.first().zip(entries.last());
        Run {
            device: Some(device),
            events: entries.len(),
            times_us: times_us.map(|(first, last)| (first.time_us, last.time_us)),
            ooms: entries.iter().filter(|entry| entry.action == Some(Action::Oom)).count(),
            segments: snapshot.segments.iter().filter(|segment| segment.device == device).count(),
            figures,
        }
    }
}
