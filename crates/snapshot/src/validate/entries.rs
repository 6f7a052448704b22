//! Trace entries one by one: rules 4, 17 to 20, 28, 30, 31 and 32.
//!
//! Rule 19 is about the whole snapshot, not one device: the viewer collects the categories of all. Of
//! rule 20, missing times are checked here, and their order with the walks.

use super::{
    frames::Frames,
    issue::Issue,
    keys::{self, Facts, Table},
    memory::Memory,
    place::{EntryPlace, TracePlace},
    values::{check_address, check_exact},
    walks,
};
use crate::{
    model::{Field, RecordedDevices, Shape, Snapshot, TraceEntry, schema},
    words::{Action, Address, Report, Rule},
};

/// The keys in the order of PyTorch's C++ writer. Its Python writer has the time earlier.
const CPP_ORDER: [&str; 12] = [
    "action",
    "addr",
    "device_free",
    "size",
    "stream",
    "compile_context",
    "user_metadata",
    "internal_metadata",
    "time_us",
    "pool_id",
    "frames",
    "forward_frames",
];

pub(super) fn check(snapshot: &Snapshot, memory: &Memory<'_>, report: &mut Report) {
    let mut check = Check {
        snapshot,
        report,
        table: Table::new(snapshot, schema::ENTRY),
        frames: Frames::new(snapshot),
        writers: vec![None; snapshot.shapes.len()],
        writer: Writers::EITHER,
    };
    let recorded = RecordedDevices::new(snapshot);
    for (device, entries) in snapshot.device_traces.iter().enumerate() {
        let place = TracePlace::Device(device);
        let is_readable = check.entries(entries, place);
        check.undated(entries, place);
        if !is_readable {
            walks::check_order(entries, place, check.report);
            let what = "the trace was not replayed, because some entries cannot be read (rules 4, 17 and 18)";
            check.report.warning(Rule::Lifecycle, place, what);
        } else if let Some(memory) = memory.devices.get(device) {
            walks::check(snapshot, &recorded, device, entries, memory, check.report);
        } else {
            walks::check_order(entries, place, check.report);
        }
    }
    check.report.set_lenient(true);
    check.entries(&snapshot.host_traces, TracePlace::Host);
    check.undated(&snapshot.host_traces, TracePlace::Host);
    walks::check_order(&snapshot.host_traces, TracePlace::Host, check.report);
    check.report.set_lenient(false);
    check.categories();
}

/// Which of PyTorch's two writers could have written a shape's keys in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Writers {
    python: bool,
    cpp: bool,
}

impl Writers {
    const EITHER: Writers = Writers { python: true, cpp: true };

    fn of(shape: &Shape) -> Writers {
        Writers {
            python: keys::is_ordered(shape, schema::names(schema::ENTRY)),
            cpp: keys::is_ordered(shape, CPP_ORDER.into_iter()),
        }
    }

    fn and(self, other: Writers) -> Writers {
        Writers { python: self.python && other.python, cpp: self.cpp && other.cpp }
    }

    fn any(self) -> bool {
        self.python || self.cpp
    }
}

struct Check<'a> {
    snapshot: &'a Snapshot,
    report: &'a mut Report,
    table: Table<'a>,
    frames: Frames<'a>,
    /// By shape.
    writers: Vec<Option<Writers>>,
    /// The writers that could have written all entries so far.
    writer: Writers,
}

impl Check<'_> {
    /// Checks every entry of a trace by itself, and returns whether all of them can be replayed.
    fn entries(&mut self, entries: &[TraceEntry], place: TracePlace) -> bool {
        let mut is_readable = true;
        let (mut with_frames, mut without) = (0u64, 0u64);
        for (index, entry) in entries.iter().enumerate() {
            let at = place.entry(index);
            let facts = self.table.facts(entry.shape);
            Issue::report_all(&facts.issues, at, self.report);
            is_readable &= check_fields(entry, facts, at, self.report);
            check_numbers(entry, facts, at, self.report);
            if entry.action.is_some_and(|action| action != Action::Snapshot) {
                let count = if facts.has_key(Field::Frames) { &mut with_frames } else { &mut without };
                *count += 1;
            }
            if entry.action == Some(Action::Annotate) {
                self.annotate(entry, at);
            }
            self.order(entry, at);
            self.frames.check(entry.stack, at, self.report);
        }
        if with_frames > 0 && without > 0 {
            let what = "`context` was changed while recording, or some threads recorded no stacks";
            let what = format_args!("entries with `frames`: {with_frames}, without: {without}; {what}");
            self.report.warning(Rule::MixedStacks, place, what);
        }
        is_readable
    }

    /// Rule 31: one writer wrote them all.
    fn order(&mut self, entry: &TraceEntry, at: EntryPlace) {
        let Some(shape) = keys::shape_of(self.snapshot, entry.shape) else { return };
        let slot = &mut self.writers[entry.shape.0 as usize];
        let writers = *slot.get_or_insert_with(|| Writers::of(shape));
        if !writers.any() {
            self.report.pytorch(
                Rule::KeyOrder,
                at,
                "the keys are not in the order of either of PyTorch's two writers",
            );
        } else if self.writer.and(writers).any() {
            self.writer = self.writer.and(writers);
        } else {
            let what = "the keys are in the order of one of PyTorch's two writers, but those of earlier entries \
                        are in the order of the other";
            self.report.pytorch(Rule::KeyOrder, at, what);
        }
    }

    /// Rule 32 (`W32`): an annotation has a text.
    fn annotate(&mut self, entry: &TraceEntry, at: EntryPlace) {
        let shape = keys::shape_of(self.snapshot, entry.shape);
        if shape.and_then(|shape| shape.text("user_metadata")).is_none_or(str::is_empty) {
            self.report.warning(Rule::Annotate, at, "this `annotate` entry has no text in `user_metadata`");
        }
    }

    /// Rule 20 for entries without a time.
    fn undated(&mut self, entries: &[TraceEntry], place: TracePlace) {
        let lacks_time = |entry: &&TraceEntry| self.table.facts(entry.shape).lacks(Field::TimeUs);
        let n_undated = entries.iter().filter(lacks_time).count();
        if n_undated > 0 {
            let entries = if n_undated == 1 { "entry" } else { "entries" };
            let what = "so the viewer shows \"Invalid Date\"; PyTorch 2.2 and later write it";
            let what = format_args!("`time_us` is missing from {n_undated} {entries}, {what}");
            self.report.warning(Rule::Times, place, what);
        }
    }

    /// Rule 19: a viewer that finds categories requires one to be "unknown".
    fn categories(&mut self) {
        let all = || self.snapshot.device_traces.iter().flatten();
        let category = |entry: &TraceEntry| {
            keys::shape_of(self.snapshot, entry.shape)?.value("category").map(|value| value.as_text())
        };
        let mut any = false;
        for category in all().filter_map(category) {
            any = true;
            if category.is_some_and(|category| &**category == "unknown") {
                return;
            }
        }
        if any {
            let what = "entries have a `category`, but none is \"unknown\", so web viewers from before June 2026 \
                        throw an error; give at least one entry that category";
            self.report.error(Rule::Categories, "device_traces", what);
        }
    }
}

/// Rules 17, 18 and 28: the keys that an action needs. Returns whether the entry can be replayed.
fn check_fields(entry: &TraceEntry, facts: &Facts, at: EntryPlace, report: &mut Report) -> bool {
    if facts.lacks(Field::Action) {
        report.error(Rule::Action, at, "`action` is missing, so viewers throw an error");
    }
    let is_oom = entry.action == Some(Action::Oom);
    let (address, name) = if is_oom { (Field::DeviceFree, "device_free") } else { (Field::Addr, "addr") };
    if is_oom && facts.has_key(Field::Addr) {
        let what = "this `oom` entry has `addr`; only `device_free` belongs in it";
        report.error(Rule::EntryKeys, at, what);
    } else if !is_oom && facts.has_key(Field::DeviceFree) {
        report.pytorch(Rule::EntryKeys, at, "`device_free` belongs only in `oom` entries");
    }
    if facts.lacks(address) {
        report.error(
            Rule::EntryKeys,
            at,
            format_args!("`{name}` is missing, so viewers throw an error or print NaN"),
        );
    }
    if facts.lacks(Field::Size) {
        report.error(Rule::EntryKeys, at, "`size` is missing, so the viewer's totals become NaN");
    }
    if facts.lacks(Field::Stream) {
        report.warning(Rule::EntryKeys, at, "`stream` is missing; PyTorch writes it in every entry");
    }
    let Some(action) = entry.action else { return facts.is_unknown_action() };
    let is_readable = facts.has(address) && facts.has(Field::Size);
    if is_readable {
        check_meaning(entry, action, facts, at, report);
    }
    // These three change nothing, so a walk does not need their numbers.
    is_readable || matches!(action, Action::Oom | Action::Snapshot | Action::Annotate)
}

fn check_meaning(entry: &TraceEntry, action: Action, facts: &Facts, at: EntryPlace, report: &mut Report) {
    if action == Action::Snapshot {
        if entry.address != Address(0) {
            let address = entry.address;
            let what = format_args!("`addr` of this `snapshot` entry is {address:#x}; it must be 0");
            report.error(Rule::SnapshotEntries, at, what);
        }
        if facts.has(Field::Frames) {
            report.pytorch(
                Rule::SnapshotEntries,
                at,
                "this `snapshot` entry has `frames`; PyTorch writes none",
            );
        }
        return;
    }
    if entry.address == Address(0) && action != Action::Oom {
        report.warning(Rule::EntryKeys, at, format_args!("`addr` of this `{}` entry is 0", action.name()));
    }
    if entry.size == 0 {
        report.warning(Rule::EntryKeys, at, format_args!("`size` of this `{}` entry is 0", action.name()));
    }
}

/// Rule 4 for the fields.
fn check_numbers(entry: &TraceEntry, facts: &Facts, at: EntryPlace, report: &mut Report) {
    if facts.has(Field::DeviceFree) {
        check_exact("device_free", entry.address.0, at, report);
    } else if facts.has(Field::Addr) {
        check_address("addr", entry.address, at, report);
    }
    check_exact("size", entry.size, at, report);
    check_exact("stream", entry.stream.0, at, report);
    check_exact("time_us", entry.time_us, at, report);
}
