//! Writes a profile in the format of pprof's `profile.proto`, with the four values of Go's heap profiles.
//!
//! There is a sample for each stack, a location for each frame, and a function for each pair of name and
//! file. A sample has the frames that identify the allocation, so that its leaf is the code that allocated.

use std::io;

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use super::{in_use, protobuf::Message};
use crate::{
    analysis::ShownFrames,
    event::Action,
    history::time_span,
    snapshot::{FrameIndex, Snapshot, StackIndex, StackTable},
};

/// Objects and bytes that were allocated, then objects and bytes in use at the end.
type Values = [u64; 4];

const VALUES: [(&str, &str); 4] = [
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
];

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
    let mut texts: IndexSet<&str, FxBuildHasher> = IndexSet::default();
    texts.insert("");
    let (mut out, mut part) = (Message::default(), Message::default());
    for (kind, unit) in VALUES {
        part.clear();
        part.int(1, texts.insert_full(kind).0 as u64);
        part.int(2, texts.insert_full(unit).0 as u64);
        out.message(SAMPLE_TYPE, &part);
    }
    let shown = ShownFrames::new(snapshot);
    let mut is_used = vec![false; snapshot.stacks.all_frames().len()];
    let samples = (0..).map(StackIndex).zip(values(snapshot));
    for (stack, values) in samples.filter(|(_, values)| *values != [0; 4]) {
        let members: Vec<usize> = shown.identifying(stack).map(FrameIndex::index).collect();
        members.iter().for_each(|frame| is_used[*frame] = true);
        part.clear();
        part.packed(1, members.iter().map(|frame| *frame as u64 + 1));
        part.packed(2, values);
        out.message(SAMPLE, &part);
    }
    let mut functions = IndexSet::<(&str, &str), FxBuildHasher>::default();
    for (index, frame) in snapshot.stacks.all_frames().enumerate().filter(|(index, _)| is_used[*index]) {
        let (function, _) = functions.insert_full((&frame.name, &frame.filename));
        let mut line = Message::default();
        line.int(1, function as u64 + 1);
        line.int(2, frame.line);
        part.clear();
        part.int(1, index as u64 + 1);
        part.message(4, &line);
        out.message(LOCATION, &part);
    }
    for (index, (name, file)) in functions.iter().enumerate() {
        part.clear();
        part.int(1, index as u64 + 1);
        part.int(2, texts.insert_full(name).0 as u64);
        part.int(4, texts.insert_full(file).0 as u64);
        out.message(FUNCTION, &part);
    }
    texts.iter().for_each(|text| out.bytes(STRING, text.as_bytes()));
    if let Some((first, last)) = time_span(snapshot.device_traces.iter().flatten()) {
        out.int(TIME_NANOS, first.saturating_mul(1000).cast_unsigned());
        out.int(DURATION_NANOS, last.saturating_sub(first).saturating_mul(1000).cast_unsigned());
    }
    out.int(DEFAULT_SAMPLE_TYPE, texts.get_index_of("inuse_space").unwrap_or(0) as u64);
    sink.write_all(out.as_bytes())
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
