//! Segments: rules 2 (its second half), 4, 8, 11, 14 and 15.
//!
//! Rule 8 also takes in the keys of blocks. Rule 14 on `allocated_size` is an
//! error where the key is missing, because the tool `trace` reads it.
//! Host segments (docs/snapshot-format.md 1.8) have device -1, no pages and one
//! block, so that rules 2 and 15 do not concern them.

use super::{
    blocks::{self, Contents},
    frames::Frames,
    keys::{self, Table},
    memory::{Memory, Range},
    place::SegmentPlace,
    values::{MAX_EXACT, is_exact},
};
use crate::{
    finding::{Report, Rule},
    inventory::PoolKind,
    snapshot::{Field, Segment, Snapshot, StackTable, TopLevel, schema},
};

/// Segments come in multiples of this; the small pool's have just this size.
const SMALL_SEGMENT_BYTES: u64 = 2 << 20;

/// What viewers and tools read.
const NEEDED: [Field; 5] = [Field::Device, Field::Address, Field::TotalSize, Field::Stream, Field::Blocks];

/// What else PyTorch writes; `allocated_size` is rule 14's.
const CUSTOMARY: [Field; 6] = [
    Field::ActiveSize,
    Field::RequestedSize,
    Field::SegmentType,
    Field::SegmentPoolId,
    Field::IsExpandable,
    Field::Frames,
];

/// Checks every segment, and returns each device's memory as the segments describe it.
pub(super) fn check(snapshot: &Snapshot, report: &mut Report) -> Memory {
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

struct Check<'a> {
    snapshot: &'a Snapshot,
    report: &'a mut Report,
    table: Table<'a>,
    blocks: blocks::Check<'a>,
    frames: Frames<'a>,
    memory: Memory,
}

impl Check<'_> {
    fn list(&mut self, segments: &[Segment], is_host: bool) {
        let mut ranges = Vec::with_capacity(segments.len());
        for (index, segment) in segments.iter().enumerate() {
            let place = SegmentPlace { is_host, index };
            let is_readable = self.keys(segment, place);
            if !is_host {
                self.device(segment, place);
            }
            let contents = self.blocks.check(segment, place, &mut self.frames, self.report);
            self.sums(segment, &contents, place);
            if is_readable && !is_host {
                self.habits(segment, place);
            }
            if is_readable {
                ranges.push((segment.device.0, range(segment, place)));
            }
            if !is_host {
                self.remember(segment, contents, is_readable, place);
            }
        }
        self.order(&ranges);
        self.overlaps(ranges);
    }

    /// Rules 4 and 8; whether device, address, size and blocks can be used.
    fn keys(&mut self, segment: &Segment, place: SegmentPlace) -> bool {
        let facts = self.table.facts(segment.shape);
        for issue in &facts.issues {
            self.report.add(issue.rule, issue.severity, place, &issue.what);
        }
        if let Some(missing) = keys::missing(schema::SEGMENT, facts, &NEEDED) {
            self.report.error(
                Rule::SegmentKeys,
                place,
                format_args!("no {missing}: viewers and tools need it"),
            );
        }
        if facts.lacks(Field::AllocatedSize) {
            self.report.error(Rule::SegmentSums, place, "no `allocated_size`: the tool `trace` needs it");
        }
        if let Some(missing) = keys::missing(schema::SEGMENT, facts, &CUSTOMARY) {
            self.report.pytorch(
                Rule::SegmentKeys,
                place,
                format_args!("no {missing}; PyTorch since 2.1 writes it"),
            );
        }
        let is_readable = NEEDED.iter().all(|field| facts.has(*field));
        self.key_order(segment, place);
        self.numbers(segment, place);
        self.frames.check(segment.stack, place, self.report);
        is_readable
    }

    /// Checks rule 8 (`P8`): `frames` is before `blocks` if no stack was captured, and last if one was.
    ///
    /// The page tells the two apart by whether the list is empty. A stack that
    /// was captured may be empty too, as on a thread without Python frames, and
    /// is then last; so an empty list may be in either place.
    fn key_order(&mut self, segment: &Segment, place: SegmentPlace) {
        let Some(shape) = keys::shape_of(self.snapshot, segment.shape) else { return };
        let is_frames = |name: &&str| *name == "frames" || *name == "forward_frames";
        let body = schema::names(schema::SEGMENT).filter(|name| !is_frames(name));
        let frames_last = keys::is_ordered(shape, body.chain(["frames", "forward_frames"]));
        let is_empty = segment.stack == Some(StackTable::EMPTY);
        let frames_before = is_empty && keys::is_ordered(shape, schema::names(schema::SEGMENT));
        if !frames_last && !frames_before {
            let what = "the keys are not in PyTorch's order (frames last, or before blocks if empty)";
            self.report.pytorch(Rule::SegmentKeys, place, what);
        }
    }

    /// Rule 4 for the fields.
    fn numbers(&mut self, segment: &Segment, place: SegmentPlace) {
        let facts = self.table.facts(segment.shape);
        let counts = [
            (Field::Address, segment.address.0),
            (Field::TotalSize, segment.total_size),
            (Field::AllocatedSize, segment.allocated_size),
            (Field::ActiveSize, segment.active_size),
            (Field::RequestedSize, segment.requested_size),
        ];
        for (field, count) in counts {
            if facts.has(field) && count > MAX_EXACT {
                let name = name(field);
                self.report.error(
                    Rule::Integers,
                    place,
                    format_args!("`{name}` is {count}, beyond 2^53: viewers round it"),
                );
            }
        }
        if facts.has(Field::Stream) && !is_exact(segment.stream.0) {
            let stream = segment.stream;
            self.report.error(
                Rule::Integers,
                place,
                format_args!("`stream` is {stream}, beyond 2^53: viewers round it"),
            );
        }
        if facts.has(Field::SegmentPoolId) && segment.pool.graph.max(segment.pool.user) > MAX_EXACT {
            let pool = segment.pool;
            self.report.error(
                Rule::Integers,
                place,
                format_args!("`segment_pool_id` is {pool}, beyond 2^53: viewers round it"),
            );
        }
    }

    /// Rule 2: every segment's device has its list of events.
    fn device(&mut self, segment: &Segment, place: SegmentPlace) {
        if !self.table.facts(segment.shape).has(Field::Device) {
            return;
        }
        let (device, n_traces) = (segment.device.0, self.snapshot.device_traces.len());
        if device < 0 {
            self.report.error(
                Rule::TraceForEveryDevice,
                place,
                format_args!("device {device}: ordinals begin at 0"),
            );
        } else if self.has_traces() && usize::try_from(device).map_or(true, |device| device >= n_traces) {
            let what = "the viewer cannot show it; add an (empty) list for each device";
            self.report.error(
                Rule::TraceForEveryDevice,
                place,
                format_args!("device {device}, but {n_traces} device_traces: {what}"),
            );
        }
    }

    fn has_traces(&self) -> bool {
        self.snapshot.top_level == TopLevel::Dictionary && !self.snapshot.device_traces.is_empty()
    }

    /// Rule 14.
    fn sums(&mut self, segment: &Segment, contents: &Contents, place: SegmentPlace) {
        let facts = self.table.facts(segment.shape);
        let sums = [
            (Field::AllocatedSize, segment.allocated_size, contents.allocated_size),
            (Field::ActiveSize, segment.active_size, contents.active_size),
            (Field::RequestedSize, segment.requested_size, contents.requested_size),
        ];
        for (field, said, sum) in sums {
            let Some(sum) = sum.filter(|sum| facts.has(field) && *sum != said) else { continue };
            let name = name(field);
            self.report.warning(
                Rule::SegmentSums,
                place,
                format_args!("`{name}` is {said}, its blocks make {sum}"),
            );
        }
    }

    /// Rule 15, as far as it concerns segments.
    fn habits(&mut self, segment: &Segment, place: SegmentPlace) {
        let size = segment.total_size;
        if size == 0 || !size.is_multiple_of(SMALL_SEGMENT_BYTES) {
            self.report.pytorch(
                Rule::Granularity,
                place,
                format_args!("{size} bytes; PyTorch takes multiples of 2 MiB"),
            );
        }
        let Some(kind) = segment.kind else { return };
        let is_small = kind == PoolKind::Small;
        if !segment.is_expandable && is_small != (size == SMALL_SEGMENT_BYTES) {
            let kind = kind.name();
            let what = "PyTorch's small segments are of 2 MiB, its large ones are not";
            self.report.pytorch(
                Rule::Granularity,
                place,
                format_args!("a {kind} segment of {size} bytes; {what}"),
            );
        }
    }

    /// Hands the segment on to the replays.
    fn remember(&mut self, segment: &Segment, contents: Contents, is_readable: bool, place: SegmentPlace) {
        if !self.table.facts(segment.shape).has(Field::Device) {
            self.memory.set_all_unreadable();
        }
        let Some(memory) = self.memory.device(segment.device.0) else { return };
        memory.is_unreadable |= !is_readable || !contents.is_readable;
        memory.ranges.push(range(segment, place));
        memory.active.extend(contents.active);
    }

    /// Rule 11: by device, and within it by address.
    fn order(&mut self, ranges: &[(i64, Range)]) {
        let key = |(device, range): &(i64, Range)| (*device, range.start);
        if let Some(pair) = ranges.windows(2).find(|pair| key(&pair[0]) > key(&pair[1])) {
            let what = "comes before the segment ahead of it; PyTorch sorts by device, then by address";
            self.report.pytorch(Rule::SegmentOverlap, pair[1].1.place, what);
        }
    }

    /// Rule 11: on one device no byte is in two segments.
    fn overlaps(&mut self, mut ranges: Vec<(i64, Range)>) {
        ranges.sort_by_key(|(device, range)| (*device, range.start));
        let mut furthest: Option<(i64, Range)> = None;
        for (device, range) in ranges {
            let last = furthest.filter(|(last, _)| *last == device);
            if let Some((_, last)) =
                last.filter(|(_, last)| last.end > range.start && range.end > range.start)
            {
                let (start, end, other) = (last.start, last.end, last.place);
                self.report.error(
                    Rule::SegmentOverlap,
                    range.place,
                    format_args!("overlaps {other} ({start:#x} to {end:#x})"),
                );
            }
            if last.is_none_or(|(_, last)| last.end < range.end) {
                furthest = Some((device, range));
            }
        }
    }
}

fn range(segment: &Segment, place: SegmentPlace) -> Range {
    Range {
        place,
        start: segment.address,
        end: segment.address.saturating_add(segment.total_size),
        stream: segment.stream,
        is_expandable: segment.is_expandable,
    }
}

/// A field's key.
fn name(field: Field) -> &'static str {
    schema::name_of(schema::SEGMENT, field)
}
