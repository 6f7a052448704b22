//! `segments` and `blocks`: what the file has at its end.

use datafusion::arrow::array::ArrayRef;
use memreel_snapshot::{
    Snapshot,
    model::{Block, Segment},
};

use super::stack_text::StackTexts;
use crate::{
    columns::{Column, Kind, Rows, booleans, column, costly, integers, texts, unsigned},
    sink::{Sink, Stopped},
};

pub(super) const COLUMNS: &[Column] = &[
    column("device", Kind::Integer, "the device's number; -1 for pinned host memory"),
    column("address", Kind::Unsigned, "its address"),
    column("size_bytes", Kind::Unsigned, "its size"),
    column("allocated_bytes", Kind::Unsigned, "bytes in blocks that the program holds, as the file has it"),
    column("active_bytes", Kind::Unsigned, "bytes in blocks in use, as the file has it"),
    column("requested_bytes", Kind::Unsigned, "requested bytes of blocks in use, as the file has it"),
    column("blocks", Kind::Unsigned, "the number of its blocks, free ones included"),
    column("stream", Kind::Integer, "the stream whose requests can use it"),
    column("pool", Kind::Text, "`small` or `large`"),
    column("pool_graph", Kind::Unsigned, "the first number of its private pool; 0 for the default pool"),
    column("pool_user", Kind::Unsigned, "the second number of its private pool"),
    column("is_expandable", Kind::Boolean, "whether it is a mapped range of an expandable segment"),
    costly("owner", Kind::Text, "the library or program that its stack names (docs/owners.md)"),
    column("stack_id", Kind::Unsigned, "the number of its stack in the file"),
    costly("stack", Kind::Text, "the frames of the request that made it, one per line, innermost first"),
    costly("site", Kind::Text, "the frames that identify the code: what `memreel top` groups by"),
];

pub(super) const BLOCK_COLUMNS: &[Column] = &[
    column("device", Kind::Integer, "the device's number; -1 for pinned host memory"),
    column("segment", Kind::Unsigned, "the address of its segment"),
    column("address", Kind::Unsigned, "its address"),
    column("size_bytes", Kind::Unsigned, "its size after rounding"),
    column("requested_bytes", Kind::Unsigned, "the requested bytes; stale in an inactive block"),
    column("state", Kind::Text, "`active_allocated`, `active_pending_free` or `inactive`"),
    column("stream", Kind::Integer, "the stream of its segment"),
    column("stack_id", Kind::Unsigned, "the number of its stack in the file"),
    costly("stack", Kind::Text, "the frames of its allocation, one per line, innermost first"),
];

struct Segments<'a>(StackTexts<'a>);

impl<'a> Rows for Segments<'a> {
    type Row = &'a Segment;

    fn column(&self, name: &str, rows: &[&'a Segment]) -> ArrayRef {
        match name {
            "device" => integers(rows, |segment| Some(segment.device.0)),
            "address" => unsigned(rows, |segment| Some(segment.address.0)),
            "size_bytes" => unsigned(rows, |segment| Some(segment.total_size)),
            "allocated_bytes" => unsigned(rows, |segment| Some(segment.allocated_size)),
            "active_bytes" => unsigned(rows, |segment| Some(segment.active_size)),
            "requested_bytes" => unsigned(rows, |segment| Some(segment.requested_size)),
            "blocks" => unsigned(rows, |segment| Some(segment.blocks.len() as u64)),
            "stream" => integers(rows, |segment| Some(segment.stream.0)),
            "pool" => texts(rows, |segment| segment.kind.map(|kind| kind.name())),
            "pool_graph" => unsigned(rows, |segment| Some(segment.pool.graph)),
            "pool_user" => unsigned(rows, |segment| Some(segment.pool.user)),
            "is_expandable" => booleans(rows, |segment| Some(segment.is_expandable)),
            _ => self.0.column(name, rows, |segment| segment.stack).expect("a column of segments"),
        }
    }
}

struct Blocks<'a>(StackTexts<'a>);

impl<'a> Rows for Blocks<'a> {
    type Row = (&'a Segment, &'a Block);

    fn column(&self, name: &str, rows: &[Self::Row]) -> ArrayRef {
        match name {
            "device" => integers(rows, |(segment, _)| Some(segment.device.0)),
            "segment" => unsigned(rows, |(segment, _)| Some(segment.address.0)),
            "address" => unsigned(rows, |(_, block)| Some(block.address.0)),
            "size_bytes" => unsigned(rows, |(_, block)| Some(block.size)),
            "requested_bytes" => unsigned(rows, |(_, block)| Some(block.requested_size)),
            "state" => texts(rows, |(_, block)| block.state.map(|state| state.name())),
            "stream" => integers(rows, |(segment, _)| Some(segment.stream.0)),
            _ => self.0.column(name, rows, |(_, block)| block.stack).expect("a column of blocks"),
        }
    }
}

/// The segments of a snapshot, those of pinned host memory behind the others.
fn all(head: &Snapshot) -> impl Iterator<Item = &Segment> {
    head.segments.iter().chain(&head.host_segments)
}

/// Hands out the segments.
pub(super) fn read(head: &Snapshot, sink: &mut Sink<'_>) -> Result<(), Stopped> {
    let segments = Segments(StackTexts::new(head));
    sink.take(&segments, all(head).collect())?;
    segments.0.count(sink.counters);
    Ok(())
}

/// Hands out the blocks, segment by segment.
pub(super) fn read_blocks(head: &Snapshot, sink: &mut Sink<'_>) -> Result<(), Stopped> {
    let blocks = Blocks(StackTexts::new(head));
    let rows = all(head).flat_map(|segment| segment.blocks.iter().map(move |block| (segment, block)));
    sink.take(&blocks, rows.collect())?;
    blocks.0.count(sink.counters);
    Ok(())
}
