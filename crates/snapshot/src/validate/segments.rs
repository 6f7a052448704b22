//! Segments: rules 2 (its second half), 4, 8, 11, 14 and 15.
//!
//! Rule 8 covers the keys of blocks too. A missing `allocated_size` is an error of rule 14, because the
//! tool `trace` reads it. Rules 2 and 15 do not apply to host segments (`docs/snapshot-format.md` 1.8),
//! which have device -1, no pages and one block.

use super::{
    blocks::{self, Sums},
    frames::Frames,
    issue::Issue,
    keys::{self, Table},
    memory::Memory,
    place::SegmentPlace,
    values::{check_address, check_exact, is_exact},
};
use crate::{
    model::{Field, Segment, Snapshot, StackTable, TopLevel, schema},
    words::{
        Address, DeviceId, PoolKind, Report, Rule,
        torch::{DRIVER_PAGE_BYTES, SMALL_SEGMENT_BYTES},
    },
};

/// Keys that viewers and tools read.
const NEEDED: [Field; 5] = [Field::Device, Field::Address, Field::TotalSize, Field::Stream, Field::Blocks];

/// The other keys that PyTorch writes; `allocated_size` belongs to rule 14.
const CUSTOMARY: [Field; 6] = [
    Field::ActiveSize,
    Field::RequestedSize,
    Field::SegmentType,
    Field::SegmentPoolId,
    Field::IsExpandable,
    Field::Frames,
];

/// Checks every segment, and returns the segments of each device that has a trace.
pub(super) fn check<'a>(snapshot: &'a Snapshot, report: &mut Report) -> Memory<'a> {
    let mut check = Check {
        snapshot,
        report,
        table: Table::new(snapshot, schema::SEGMENT),
        blocks: blocks::Check::new(snapshot),
        frames: Frames::new(snapshot),
        memory: Memory::new(snapshot.device_traces.len()),
    };
    if snapshot.top_level == TopLevel::Dictionary && !snapshot.shape.has(Field::Segments) {
        check.memory.set_all_unreadable();
    }
    check.list(&snapshot.segments, false);
    check.report.set_lenient(true);
    check.list(&snapshot.host_segments, true);
    check.report.set_lenient(false);
    check.memory
}

struct Check<'a, 'r> {
    snapshot: &'a Snapshot,
    report: &'r mut Report,
    table: Table<'a>,
    blocks: blocks::Check<'a>,
    frames: Frames<'a>,
    memory: Memory<'a>,
}

impl<'a> Check<'a, '_> {
    fn list(&mut self, segments: &'a [Segment], is_host: bool) {
        let mut readable = Vec::with_capacity(segments.len());
        for (index, segment) in segments.iter().enumerate() {
            let place = SegmentPlace { is_host, index };
            let is_readable = self.keys(segment, place);
            if !is_host {
                self.device(segment, place);
            }
            let sums = self.blocks.check(segment, place, &mut self.frames, self.report);
            if let Some(sums) = sums {
                self.sums(segment, &sums, place);
            }
            if is_readable && !is_host {
                self.habits(segment, place);
            }
            if is_readable {
                readable.push((place, segment));
            }
            if !is_host {
                self.remember(index, segment, is_readable && sums.is_some());
            }
        }
        self.order(&readable);
        self.overlaps(readable);
    }

    /// Rules 4 and 8. Returns whether device, address, size, stream and blocks can be read.
    fn keys(&mut self, segment: &Segment, place: SegmentPlace) -> bool {
        let facts = self.table.facts(segment.shape);
        Issue::report_all(&facts.issues, place, self.report);
        if let Some(what) = keys::missing(schema::SEGMENT, facts, &NEEDED, "viewers and tools need") {
            self.report.error(Rule::SegmentKeys, place, what);
        }
        if facts.lacks(Field::AllocatedSize) {
            let what = "`allocated_size` is missing; PyTorch's tool `trace` needs it";
            self.report.error(Rule::SegmentSums, place, what);
        }
        let uses = "PyTorch 2.1 and later write";
        if let Some(what) = keys::missing(schema::SEGMENT, facts, &CUSTOMARY, uses) {
            self.report.pytorch(Rule::SegmentKeys, place, what);
        }
        let is_readable = NEEDED.iter().all(|field| facts.has(*field));
        self.key_order(segment, place);
        self.numbers(segment, place);
        self.frames.check(segment.stack, place, self.report);
        is_readable
    }

    /// Checks rule 8 (`P8`): `frames` is before `blocks` if no stack was captured, and last if one was.
    ///
    /// On the page an empty list is a stack that was not captured. A captured stack can be empty too, such
    /// as on a thread without Python frames, and is then last. So an empty list may be in either place.
    fn key_order(&mut self, segment: &Segment, place: SegmentPlace) {
        let Some(shape) = keys::shape_of(self.snapshot, segment.shape) else { return };
        let is_frames = |name: &&str| *name == "frames" || *name == "forward_frames";
        let body = schema::names(schema::SEGMENT).filter(|name| !is_frames(name));
        let frames_last = keys::is_ordered(shape, body.chain(["frames", "forward_frames"]));
        let is_empty = segment.stack == Some(StackTable::EMPTY);
        let frames_before = is_empty && keys::is_ordered(shape, schema::names(schema::SEGMENT));
        if !frames_last && !frames_before {
            let what = "the keys are not in PyTorch's order (`frames` is last or, if it is empty, may be before \
                        `blocks`)";
            self.report.pytorch(Rule::SegmentKeys, place, what);
        }
    }

    /// Rule 4 for the fields.
    fn numbers(&mut self, segment: &Segment, place: SegmentPlace) {
        let facts = self.table.facts(segment.shape);
        let counts = [
            (Field::TotalSize, segment.total_size),
            (Field::AllocatedSize, segment.allocated_size),
            (Field::ActiveSize, segment.active_size),
            (Field::RequestedSize, segment.requested_size),
        ];
        if facts.has(Field::Address) {
            check_address("address", segment.address, place, self.report);
        }
        for (field, count) in counts {
            if facts.has(field) {
                check_exact(name(field), count, place, self.report);
            }
        }
        if facts.has(Field::Stream) {
            check_exact("stream", segment.stream.0, place, self.report);
        }
        if facts.has(Field::SegmentPoolId) && !is_exact(segment.pool.graph.max(segment.pool.user)) {
            let pool = segment.pool;
            let what =
                format_args!("`segment_pool_id` is {pool}; one number is above 2^53, so viewers round it");
            self.report.error(Rule::Integers, place, what);
        }
    }

    /// Rule 2: every segment's device has its list of events.
    fn device(&mut self, segment: &Segment, place: SegmentPlace) {
        if !self.table.facts(segment.shape).has(Field::Device) {
            return;
        }
        let (device, n_traces) = (segment.device.0, self.snapshot.device_traces.len());
        if device < 0 {
            let what = format_args!("`device` is {device}, but devices are numbered from 0");
            self.report.error(Rule::TraceForEveryDevice, place, what);
        } else if self.has_traces() && usize::try_from(device).map_or(true, |device| device >= n_traces) {
            let lists = if n_traces == 1 { "list" } else { "lists" };
            let what =
                "so the viewer cannot show this segment; add a list, which may be empty, for each device";
            let what =
                format_args!("`device` is {device}, but `device_traces` has only {n_traces} {lists}, {what}");
            self.report.error(Rule::TraceForEveryDevice, place, what);
        }
    }

    fn has_traces(&self) -> bool {
        self.snapshot.top_level == TopLevel::Dictionary && !self.snapshot.device_traces.is_empty()
    }

    /// Rule 14.
    fn sums(&mut self, segment: &Segment, sums: &Sums, place: SegmentPlace) {
        let facts = self.table.facts(segment.shape);
        let sums = [
            (Field::AllocatedSize, segment.allocated_size, Some(sums.allocated_size)),
            (Field::ActiveSize, segment.active_size, Some(sums.active_size)),
            (Field::RequestedSize, segment.requested_size, sums.requested_size),
        ];
        for (field, said, sum) in sums {
            let Some(sum) = sum.filter(|sum| facts.has(field) && *sum != said) else { continue };
            let name = name(field);
            let what =
                format_args!("`{name}` is {said}, but the blocks that it counts add up to {sum} bytes");
            self.report.warning(Rule::SegmentSums, place, what);
        }
    }

    /// Rule 15 for segments.
    fn habits(&mut self, segment: &Segment, place: SegmentPlace) {
        let size = segment.total_size;
        if size == 0 || !size.is_multiple_of(DRIVER_PAGE_BYTES) {
            let what = format_args!("`total_size` is {size}, but PyTorch's segments are multiples of 2 MiB");
            self.report.pytorch(Rule::Granularity, place, what);
        }
        let Some(kind) = segment.kind else { return };
        let is_small = kind == PoolKind::Small;
        if !segment.is_expandable && is_small != (size == SMALL_SEGMENT_BYTES) {
            let kind = kind.name();
            let what = "but PyTorch's small segments have exactly 2 MiB, and its large ones do not";
            let what = format_args!("this {kind} segment has {size} bytes, {what}");
            self.report.pytorch(Rule::Granularity, place, what);
        }
    }

    /// Keeps the segment for the walks.
    fn remember(&mut self, index: usize, segment: &'a Segment, is_readable: bool) {
        if !self.table.facts(segment.shape).has(Field::Device) {
            self.memory.set_all_unreadable();
        }
        let Some(memory) = self.memory.device(segment.device.0) else { return };
        memory.is_unreadable |= !is_readable;
        memory.segments.push((index, segment));
    }

    /// Rule 11: segments are sorted by device, then by address.
    fn order(&mut self, segments: &[(SegmentPlace, &Segment)]) {
        if let Some(pair) = segments.windows(2).find(|pair| key(&pair[0]) > key(&pair[1])) {
            let what =
                "this segment should be before the previous one: PyTorch sorts by device, then by address";
            self.report.pytorch(Rule::SegmentOverlap, pair[1].0, what);
        }
    }

    /// Rule 11: on one device no byte is in two segments.
    fn overlaps(&mut self, mut segments: Vec<(SegmentPlace, &Segment)>) {
        segments.sort_by_key(key);
        let end = |segment: &Segment| segment.address.saturating_add(segment.total_size);
        let mut furthest: Option<(SegmentPlace, &Segment)> = None;
        for (place, segment) in segments {
            let last = furthest.filter(|(_, last)| last.device == segment.device);
            let overlapped =
                last.filter(|(_, last)| end(last) > segment.address && end(segment) > segment.address);
            if let Some((other, last)) = overlapped {
                let what =
                    format_args!("this segment overlaps {other} ({:#x} to {:#x})", last.address, end(last));
                self.report.error(Rule::SegmentOverlap, place, what);
            }
            if last.is_none_or(|(_, last)| end(last) < end(segment)) {
                furthest = Some((place, segment));
            }
        }
    }
}

/// PyTorch's order of segments.
fn key((_, segment): &(SegmentPlace, &Segment)) -> (DeviceId, Address) {
    (segment.device, segment.address)
}

/// A field's key.
fn name(field: Field) -> &'static str {
    schema::name_of(schema::SEGMENT, field)
}
