//! Blocks as folded stacks, the lines from which tools draw flame graphs (`docs/snapshot-format.md` 4.4).

use std::{collections::HashMap, fmt};

use rustc_hash::FxHashMap;

use super::{
    frames::ShownFrames,
    viewer_filter::{base_name, is_shown},
};
use crate::{
    event::DeviceId,
    inventory::BlockState,
    snapshot::{Block, Field, Segment, Snapshot, StackIndex, Value, block_uses},
};

/// The beginning of each line of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Grouping {
    /// The stream and the segment, as in `segments` of PyTorch's tool.
    Segments,
    /// The stream alone, as in `memory` of PyTorch's tool.
    Memory,
}

/// Calls `take` with the folded stack and the bytes of each block, in the order of the file; without a
/// device, for the blocks of all devices.
///
/// # Errors
/// The first error of `take`, which ends the calls.
pub fn folded<E>(
    snapshot: &Snapshot,
    device: Option<DeviceId>,
    grouping: Grouping,
    mut take: impl FnMut(&str, i128) -> Result<(), E>,
) -> Result<(), E> {
    let mut folder = Folder::new(snapshot);
    let is_asked = |segment: &&Segment| device.is_none_or(|device| segment.device == device);
    for segment in snapshot.segments.iter().filter(is_asked) {
        let Segment { stream, address, .. } = segment;
        let prefix = match grouping {
            Grouping::Segments => format!("stream_{stream};seg_{}", address.0),
            Grouping::Memory => format!("stream_{stream}"),
        };
        folder.segment(segment, &prefix, &mut take)?;
    }
    Ok(())
}

/// Makes the lines of blocks. It makes the text of each stack once.
#[derive(Debug)]
pub(crate) struct Folder<'a> {
    snapshot: &'a Snapshot,
    shown: ShownFrames<'a>,
    texts: FxHashMap<StackIndex, String>,
    line: String,
}

impl<'a> Folder<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Folder<'a> {
        Folder { snapshot, shown: ShownFrames::new(snapshot), texts: HashMap::default(), line: String::new() }
    }

    /// Calls `take` with the lines of one segment's blocks.
    pub(crate) fn segment<E>(
        &mut self,
        segment: &Segment,
        prefix: &str,
        take: &mut impl FnMut(&str, i128) -> Result<(), E>,
    ) -> Result<(), E> {
        for block in &segment.blocks {
            self.block(block, prefix, take)?;
        }
        Ok(())
    }

    fn block<E>(
        &mut self,
        block: &Block,
        prefix: &str,
        take: &mut impl FnMut(&str, i128) -> Result<(), E>,
    ) -> Result<(), E> {
        let snapshot = self.snapshot;
        let shape = snapshot.shapes.get(block.shape);
        let state = block.state.map(BlockState::name).or_else(|| shape.text("state")).unwrap_or_default();
        let mut accounted = 0_i128;
        // PyTorch 2.0 lists all uses of a block, not only the latest.
        if let Some(uses) = block_uses(shape) {
            for used in uses {
                let bytes = i128::from(used.requested_bytes);
                accounted += bytes;
                self.begin(prefix, state);
                self.line.push_str(&used_by(used.frames));
                take(&self.line, bytes)?;
            }
        } else {
            let bytes = i128::from(block.requested_size);
            accounted = bytes;
            self.begin(prefix, state);
            let stack = block.stack.filter(|_| shape.has(Field::Frames));
            self.push_stack(stack);
            take(&self.line, bytes)?;
        }
        let gaps = i128::from(block.size) - accounted;
        if gaps != 0 {
            self.begin(prefix, state);
            self.line.push_str("<gaps>");
            take(&self.line, gaps)?;
        }
        Ok(())
    }

    fn begin(&mut self, prefix: &str, state: &str) {
        self.line.clear();
        for part in [prefix, ";", state, ";"] {
            self.line.push_str(part);
        }
    }

    fn push_stack(&mut self, stack: Option<StackIndex>) {
        let shown = &self.shown;
        match stack.filter(|stack| shown.has_frames(*stack)) {
            None => self.line.push_str("<non-python>"),
            Some(stack) => {
                let text = self.texts.entry(stack).or_insert_with(|| {
                    let frames = shown.frames(stack).rev();
                    joined(frames.map(|frame| FoldedFrame(&frame.name, &frame.filename, frame.line)))
                });
                self.line.push_str(text);
            }
        }
    }
}

/// A frame as PyTorch's tool prints it.
struct FoldedFrame<'a>(&'a str, &'a str, u64);

impl fmt::Display for FoldedFrame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FoldedFrame(name, filename, line) = self;
        write!(f, "{}:{line}:{name}", base_name(filename))
    }
}

fn joined<'a>(frames: impl Iterator<Item = FoldedFrame<'a>>) -> String {
    let mut text = String::new();
    for frame in frames {
        if !text.is_empty() {
            text.push(';');
        }
        text.push_str(&frame.to_string());
    }
    text
}

/// Returns the folded stack of one element of a `history`, whose frames are not interned.
fn used_by(frames: Option<&Value>) -> String {
    let Some(frames) = frames.and_then(Value::as_elements) else { return "<no-context>".into() };
    if frames.is_empty() {
        return "<non-python>".into();
    }
    let text = |frame: &'_ Value, key| frame.get(key).and_then(Value::as_text).cloned().unwrap_or_default();
    let read: Vec<_> = frames
        .iter()
        .rev()
        .map(|frame| {
            let line = frame.get("line").and_then(Value::as_int).unwrap_or(0);
            (text(frame, "name"), text(frame, "filename"), u64::try_from(line).unwrap_or(0))
        })
        .filter(|(name, filename, _)| is_shown(name, filename))
        .collect();
    joined(read.iter().map(|(name, filename, line)| FoldedFrame(name, filename, *line)))
}
