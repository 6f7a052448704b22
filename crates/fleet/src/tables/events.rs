//! `events`: a row for each event.

use datafusion::arrow::array::ArrayRef;
use memreel_snapshot::{
    DeviceId,
    model::{SnapshotSource, TraceEntry},
};

use super::stack_text::StackTexts;
use crate::{
    columns::{Column, Kind, Rows, column, costly, integers, texts, unsigned},
    sink::{Sink, Stopped},
};

pub(super) const COLUMNS: &[Column] = &[
    column("device", Kind::Integer, "the device's number; -1 for pinned host memory"),
    column("event", Kind::Unsigned, "the event's number in the trace of its device, from 0"),
    column("time_us", Kind::Integer, "microseconds since the Unix epoch"),
    column("action", Kind::Text, "`alloc`, `free_requested`, `free_completed`, `segment_alloc`, `oom`, …"),
    column(
        "address",
        Kind::Unsigned,
        "the address of its memory; for an `oom`, the free bytes of the device",
    ),
    column("size_bytes", Kind::Unsigned, "the size of its memory; for an `oom`, that of the request"),
    column("stream", Kind::Integer, "the stream"),
    costly("scope", Kind::Text, "the text of `user_metadata`: the scope it was recorded in"),
    column("stack_id", Kind::Unsigned, "the number of its stack in the file"),
    costly("stack", Kind::Text, "its frames, one per line, innermost first"),
    costly("site", Kind::Text, "the frames that identify the code: what `memreel top` groups by"),
];

/// An event: its device, its number there and its entry.
type Row = (i64, u64, TraceEntry);

/// How many events are decoded before their rows are handed out.
const CHUNK_EVENTS: usize = 1 << 16;

struct Events<'a> {
    source: &'a dyn SnapshotSource,
    stacks: StackTexts<'a>,
}

impl Rows for Events<'_> {
    type Row = Row;

    fn column(&self, name: &str, rows: &[Row]) -> ArrayRef {
        let head = self.source.head();
        match name {
            "device" => integers(rows, |(device, _, _)| Some(*device)),
            "event" => unsigned(rows, |(_, event, _)| Some(*event)),
            "time_us" => integers(rows, |(_, _, entry)| Some(entry.time_us)),
            "action" => texts(rows, |(_, _, entry)| entry.action.map(|action| action.name())),
            "address" => unsigned(rows, |(_, _, entry)| Some(entry.address.0)),
            "size_bytes" => unsigned(rows, |(_, _, entry)| Some(entry.size)),
            "stream" => integers(rows, |(_, _, entry)| Some(entry.stream.0)),
            "scope" => {
                texts(rows, |(_, _, entry)| Some(head.user_metadata(entry)).filter(|scope| !scope.is_empty()))
            }
            _ => self.stacks.column(name, rows, |(_, _, entry)| entry.stack).expect("a column of events"),
        }
    }
}

/// Hands out the events, device by device, oldest first; those of pinned host memory are the last.
pub(super) fn read(source: &dyn SnapshotSource, sink: &mut Sink<'_>) -> Result<(), Stopped> {
    let events = Events { source, stacks: StackTexts::new(source.head()) };
    for device in DeviceId::first(source.n_traces()) {
        let n_entries = source.n_entries(device);
        for start in (0..n_entries).step_by(CHUNK_EVENTS) {
            let mut rows = Vec::with_capacity(CHUNK_EVENTS.min(n_entries - start));
            let mut event = start as u64;
            source.for_each_entry_in(device, start..start + CHUNK_EVENTS, &mut |entry| {
                rows.push((device.0, event, *entry));
                event += 1;
            });
            sink.counters.events.add(rows.len());
            sink.take(&events, rows)?;
        }
    }
    let host = source.head().host_traces.iter().zip(0..);
    let rows: Vec<Row> = host.map(|(entry, event)| (DeviceId::HOST.0, event, *entry)).collect();
    sink.counters.events.add(rows.len());
    sink.take(&events, rows)?;
    events.stacks.count(sink.counters);
    Ok(())
}
