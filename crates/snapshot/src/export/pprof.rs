//! Writes a profile in the format of pprof's `profile.proto`, with the four values of Go's heap profiles.
//!
//! There is a sample for each stack, a location for each frame, and a function for each pair of name and
//! file. A sample has the frames that identify the allocation, so that its leaf is the code that allocated. A profile may be of
//! several snapshots, whose samples have labels.

use std::io::{self, Write as _};

use indexmap::{IndexMap, IndexSet};

use super::{heap_part::HeapPart, in_use::in_use, protobuf::Message};
use crate::{
    analysis::ShownFrames,
    history::{TextIds, time_span},
    model::{Frame, Snapshot, StackIndex, StackTable},
    words::{Action, Seeded, SeededMap},
};

/// Objects and bytes that were allocated, then objects and bytes in use at the end.
type Values = [u64; 4];

const VALUES: [(&str, &str); 4] = [
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
];

/// The first of the values of what is in use.
const IN_USE: usize = 2;

/// What has the samples of one snapshot.
struct Part<'a> {
    snapshot: &'a Snapshot,
    /// By the number of the stack.
    values: Vec<Values>,
    /// The key and the text of each label.
    labels: &'a [(&'static str, String)],
}

// The fields of `Profile`.
const SAMPLE_TYPE: u64 = 1;
const SAMPLE: u64 = 2;
const LOCATION: u64 = 4;
const FUNCTION: u64 = 5;
const STRING: u64 = 6;
const TIME_NANOS: u64 = 9;
const DURATION_NANOS: u64 = 10;
const DEFAULT_SAMPLE_TYPE: u64 = 14;

pub(super) fn write(snapshot: &Snapshot, sink: &mut impl io::Write) -> io::Result<()> {
    let part = Part { snapshot, values: values(snapshot), labels: &[] };
    let span = time_span(snapshot.device_traces.iter().flatten());
    let span = span.map(|(first, last)| (first.cast_unsigned(), last.saturating_sub(first).cast_unsigned()));
    write_parts(&[part], 0, span, sink)
}

/// Writes what is in use in several snapshots at one time.
pub(super) fn write_in_use(
    parts: &[HeapPart<'_>],
    time_us: u64,
    sink: &mut impl io::Write,
) -> io::Result<()> {
    let parts: Vec<Part<'_>> = parts
        .iter()
        .map(|part| Part { snapshot: part.snapshot, values: held(part), labels: &part.labels })
        .collect();
    write_parts(&parts, IN_USE, Some((time_us, 0)), sink)
}

/// Writes the values from the one with the number `first` on. `span` is when it begins and how long it is, in microseconds.
fn write_parts(
    parts: &[Part<'_>],
    first: usize,
    span: Option<(u64, u64)>,
    sink: &mut impl io::Write,
) -> io::Result<()> {
    let mut texts = Texts::default();
    let mut out = io::BufWriter::new(sink);
    let mut part = Message::default();
    for (kind, unit) in &VALUES[first..] {
        part.clear();
        part.int(1, texts.number(kind));
        part.int(2, texts.number(unit));
        part.write(SAMPLE_TYPE, &mut out)?;
    }
    let mut ids = TextIds::default();
    let mut functions = IndexMap::<(u32, u32), &Frame, Seeded>::default();
    // The locations of one snapshot come after those of the one before.
    let mut n_before = 0;
    for Part { snapshot, values, labels } in parts {
        let shown = ShownFrames::new(snapshot);
        let mut is_used = vec![false; snapshot.stacks.all_frames().len()];
        let samples = (0..).map(StackIndex).zip(values);
        for (stack, values) in samples.filter(|(_, values)| **values != [0; 4]) {
            shown.identifying(stack).for_each(|frame| is_used[frame.index()] = true);
            part.clear();
            part.packed(1, shown.identifying(stack).map(|frame| n_before + frame.index() as u64 + 1));
            part.packed(2, values[first..].iter().copied());
            for (key, text) in *labels {
                let mut label = Message::default();
                label.int(1, texts.number(key));
                label.int(2, texts.number(text));
                part.message(3, &label);
            }
            part.write(SAMPLE, &mut out)?;
        }
        for (index, frame) in snapshot.stacks.all_frames().enumerate().filter(|(index, _)| is_used[*index]) {
            let key = (ids.id(&frame.name), ids.id(&frame.filename));
            let (function, _) = functions.insert_full(key, frame);
            let mut line = Message::default();
            line.int(1, function as u64 + 1);
            line.int(2, frame.line);
            part.clear();
            part.int(1, n_before + index as u64 + 1);
            part.message(4, &line);
            part.write(LOCATION, &mut out)?;
        }
        n_before += is_used.len() as u64;
    }
    // By the number of a text: its place among the texts of the profile.
    let mut places = SeededMap::default();
    for (index, ((name, file), frame)) in functions.iter().enumerate() {
        part.clear();
        part.int(1, index as u64 + 1);
        part.int(2, *places.entry(*name).or_insert_with(|| texts.number(&frame.name)));
        part.int(4, *places.entry(*file).or_insert_with(|| texts.number(&frame.filename)));
        part.write(FUNCTION, &mut out)?;
    }
    let default = texts.number("inuse_space");
    for text in &texts.0 {
        part.clear();
        part.raw(text.as_bytes());
        part.write(STRING, &mut out)?;
    }
    part.clear();
    if let Some((first_us, duration_us)) = span {
        part.int(TIME_NANOS, first_us.saturating_mul(1000));
        part.int(DURATION_NANOS, duration_us.saturating_mul(1000));
    }
    part.int(DEFAULT_SAMPLE_TYPE, default);
    out.write_all(part.as_bytes())?;
    out.flush()
}

/// The blocks and bytes that each stack of a part holds.
fn held(part: &HeapPart<'_>) -> Vec<Values> {
    let mut all = vec![[0; 4]; part.snapshot.stacks.len()];
    for (stack, n_blocks, bytes) in &part.held {
        let values: &mut Values = &mut all[stack.unwrap_or(StackTable::EMPTY).index()];
        values[IN_USE] = values[IN_USE].saturating_add(*n_blocks);
        values[IN_USE + 1] = values[IN_USE + 1].saturating_add(*bytes);
    }
    all
}

/// The texts of a profile; the first is empty.
struct Texts<'a>(IndexSet<&'a str>);

impl Default for Texts<'_> {
    fn default() -> Self {
        Texts(IndexSet::from([""]))
    }
}

impl<'a> Texts<'a> {
    /// Returns the number of a text.
    fn number(&mut self, text: &'a str) -> u64 {
        self.0.insert_full(text).0 as u64
    }
}

/// The values of each stack, by its number.
fn values(snapshot: &Snapshot) -> Vec<Values> {
    let mut all = vec![[0; 4]; snapshot.stacks.len()];
    let mut add = |stack: Option<StackIndex>, first: usize, bytes: u64| {
        let values: &mut Values = &mut all[stack.unwrap_or(StackTable::EMPTY).index()];
        values[first] += 1;
        values[first + 1] = values[first + 1].saturating_add(bytes);
    };
    let allocs = snapshot.device_traces.iter().flatten().filter(|entry| entry.action == Some(Action::Alloc));
    allocs.for_each(|entry| add(entry.stack, 0, entry.size));
    in_use(snapshot).for_each(|(stack, bytes)| add(stack, 2, bytes));
    all
}
