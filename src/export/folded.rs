//! Writes each stack on one line, outermost frame first, with its bytes in use, for flame graph tools.
//!
//! A line has the frames that identify the allocation, as the tree of `memreel top` does.

use std::{collections::BTreeMap, io};

use super::in_use;
use crate::{
    analysis::ShownFrames,
    snapshot::{Snapshot, StackIndex},
};

pub(super) fn write(snapshot: &Snapshot, sink: &mut impl io::Write) -> io::Result<()> {
    // Sum by stack first: many blocks may share a stack, and a line is long.
    let mut sums: BTreeMap<Option<StackIndex>, u64> = BTreeMap::new();
    for (stack, bytes) in in_use(snapshot) {
        let sum = sums.entry(stack).or_default();
        *sum = sum.saturating_add(bytes);
    }
    let shown = ShownFrames::new(snapshot);
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for (stack, bytes) in sums {
        let sum = lines.entry(text(snapshot, &shown, stack)).or_default();
        *sum = sum.saturating_add(bytes);
    }
    lines.iter().try_for_each(|(line, bytes)| writeln!(sink, "{line} {bytes}"))
}

fn text(snapshot: &Snapshot, shown: &ShownFrames<'_>, stack: Option<StackIndex>) -> String {
    let frames = stack.into_iter().flat_map(|stack| shown.identifying(stack).rev());
    let frames: Vec<String> = frames
        .map(|frame| {
            let frame = snapshot.stacks.frame(frame);
            let file = frame.filename.rsplit('/').next().unwrap_or_default();
            // A semicolon would end the frame, and a newline the line.
            format!("{file}:{}:{}", frame.line, frame.name).replace([';', '\n'], " ")
        })
        .collect();
    if frames.is_empty() { "(no stack)".to_owned() } else { frames.join(";") }
}
