//! Stacks on one line, outermost first, each with its bytes in use: what flame graph tools read.

use std::{collections::BTreeMap, io};

use super::in_use;
use crate::snapshot::{Snapshot, StackIndex};

pub(super) fn write(snapshot: &Snapshot, sink: &mut impl io::Write) -> io::Result<()> {
    // By stack first: a thousand blocks may have one, and a line is long.
    let mut sums: BTreeMap<Option<StackIndex>, u64> = BTreeMap::new();
    for (stack, bytes) in in_use(snapshot) {
        let sum = sums.entry(stack).or_default();
        *sum = sum.saturating_add(bytes);
    }
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for (stack, bytes) in sums {
        let sum = lines.entry(text(snapshot, stack)).or_default();
        *sum = sum.saturating_add(bytes);
    }
    lines.iter().try_for_each(|(line, bytes)| writeln!(sink, "{line} {bytes}"))
}

fn text(snapshot: &Snapshot, stack: Option<StackIndex>) -> String {
    let frames = snapshot.frames(stack).rev();
    let frames: Vec<String> = frames
        .map(|frame| {
            let file = frame.filename.rsplit('/').next().unwrap_or_default();
            // These two would end the frame, or the line.
            format!("{file}:{}:{}", frame.line, frame.name).replace([';', '\n'], " ")
        })
        .collect();
    if frames.is_empty() { "(no stack)".to_owned() } else { frames.join(";") }
}
