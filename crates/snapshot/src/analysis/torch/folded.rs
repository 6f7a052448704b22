//! Prints blocks as folded stacks, the lines from which tools draw flame graphs (`docs/snapshot-format.md` 4.4).

use std::fmt;

use crate::{
    analysis::{ShownFrames, is_shown},
    model::{Block, Field, Segment, Snapshot, StackIndex, Value, block_uses},
    words::{BlockState, DeviceId, paths::base_name},
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

/// The folded stack of a block, without its bytes.
///
/// It prints as one text, which can be far longer than the file of a snapshot: each text repeats the names and frames
/// that many stacks share.
#[derive(Debug)]
pub struct FoldedStack<'a> {
    prefix: &'a str,
    state: &'a str,
    calls: Calls<'a>,
}

/// What follows the state in a folded stack.
#[derive(Debug)]
enum Calls<'a> {
    /// A word of PyTorch's tool.
    Word(&'static str),
    Stack(&'a ShownFrames<'a>, StackIndex),
    /// The frames of one element of a `history`, which are not interned.
    Values(&'a [Value]),
}

impl fmt::Display for FoldedStack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{};{};", self.prefix, self.state)?;
        match self.calls {
            Calls::Word(word) => f.write_str(word),
            Calls::Stack(shown, stack) => {
                let frames = shown.frames(stack).rev();
                join(f, frames.map(|frame| FoldedFrame(&frame.name, &frame.filename, frame.line)))
            }
            Calls::Values(frames) => {
                join(f, frames.iter().rev().map(value_frame).filter(FoldedFrame::is_shown))
            }
        }
    }
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
    mut take: impl FnMut(&FoldedStack<'_>, i128) -> Result<(), E>,
) -> Result<(), E> {
    let folder = Folder::new(snapshot);
    for segment in snapshot.segments_of(device) {
        let Segment { stream, address, .. } = segment;
        let prefix = match grouping {
            Grouping::Segments => format!("stream_{stream};seg_{}", address.0),
            Grouping::Memory => format!("stream_{stream}"),
        };
        folder.segment(segment, &prefix, &mut take)?;
    }
    Ok(())
}

/// Creates the lines of blocks.
#[derive(Debug)]
pub(crate) struct Folder<'a> {
    snapshot: &'a Snapshot,
    shown: ShownFrames<'a>,
}

impl<'a> Folder<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Folder<'a> {
        Folder { snapshot, shown: ShownFrames::new(snapshot) }
    }

    /// Calls `take` with the lines of one segment's blocks.
    pub(crate) fn segment<E>(
        &self,
        segment: &Segment,
        prefix: &str,
        take: &mut impl FnMut(&FoldedStack<'_>, i128) -> Result<(), E>,
    ) -> Result<(), E> {
        for block in &segment.blocks {
            self.block(block, prefix, take)?;
        }
        Ok(())
    }

    fn block<E>(
        &self,
        block: &Block,
        prefix: &str,
        take: &mut impl FnMut(&FoldedStack<'_>, i128) -> Result<(), E>,
    ) -> Result<(), E> {
        let shape = self.snapshot.shapes.get(block.shape);
        let state = block.state.map(BlockState::name).or_else(|| shape.text("state")).unwrap_or_default();
        let mut accounted = 0_i128;
        let mut line = |calls, bytes| take(&FoldedStack { prefix, state, calls }, bytes);
        // PyTorch 2.0 lists all uses of a block, not only the latest.
        if let Some(uses) = block_uses(shape) {
            for used in uses {
                let bytes = i128::from(used.requested_bytes);
                accounted += bytes;
                line(used_by(used.frames), bytes)?;
            }
        } else {
            let bytes = i128::from(block.requested_size);
            accounted = bytes;
            let stack = block.stack.filter(|_| shape.has(Field::Frames));
            let calls = match stack.filter(|stack| self.shown.has_frames(*stack)) {
                None => Calls::Word("<non-python>"),
                Some(stack) => Calls::Stack(&self.shown, stack),
            };
            line(calls, bytes)?;
        }
        let gaps = i128::from(block.size) - accounted;
        if gaps != 0 {
            line(Calls::Word("<gaps>"), gaps)?;
        }
        Ok(())
    }
}

/// A frame as PyTorch's tool prints it.
struct FoldedFrame<'a>(&'a str, &'a str, u64);

impl FoldedFrame<'_> {
    fn is_shown(&self) -> bool {
        is_shown(self.0, self.1)
    }
}

impl fmt::Display for FoldedFrame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FoldedFrame(name, filename, line) = self;
        write!(f, "{}:{line}:{name}", base_name(filename))
    }
}

fn join<'a>(f: &mut fmt::Formatter<'_>, frames: impl Iterator<Item = FoldedFrame<'a>>) -> fmt::Result {
    for (nth, frame) in frames.enumerate() {
        f.write_str(if nth > 0 { ";" } else { "" })?;
        write!(f, "{frame}")?;
    }
    Ok(())
}

/// Returns the calls of one element of a `history`.
fn used_by(frames: Option<&Value>) -> Calls<'_> {
    match frames.and_then(Value::as_elements) {
        None => Calls::Word("<no-context>"),
        Some([]) => Calls::Word("<non-python>"),
        Some(frames) => Calls::Values(frames),
    }
}

fn value_frame(frame: &Value) -> FoldedFrame<'_> {
    let text = |key| frame.get(key).and_then(Value::as_text).map_or("", |text| &**text);
    let line = frame.get("line").and_then(Value::as_int).unwrap_or(0);
    FoldedFrame(text("name"), text("filename"), u64::try_from(line).unwrap_or(0))
}
