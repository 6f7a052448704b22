//! `stacks` and `frames`: a row for each stack of a file, and one for each of its frames.

use datafusion::arrow::array::ArrayRef;
use memreel_snapshot::{
    Snapshot,
    model::{Frame, FrameIndex},
};

use super::stack_text::frame_text;
use crate::{
    columns::{Column, Kind, Rows, column, costly, texts, unsigned},
    sink::{Sink, Stopped},
};

pub(super) const COLUMNS: &[Column] = &[
    column("stack_id", Kind::Unsigned, "its number in the file, as in the other tables"),
    column("depth", Kind::Unsigned, "the number of its frames"),
    costly("stack", Kind::Text, "its frames, one per line, innermost first"),
];

pub(super) const FRAME_COLUMNS: &[Column] = &[
    column("stack_id", Kind::Unsigned, "the number of the stack in the file"),
    column("depth", Kind::Unsigned, "the frame's place in the stack; 0 is the innermost"),
    column("function", Kind::Text, "the function"),
    column("filename", Kind::Text, "the path of its source"),
    column("line", Kind::Unsigned, "the line of the call; 0 if not known"),
    column("library", Kind::Text, "the library that it is in, if the file says so"),
];

/// How many rows of frames are handed out at once.
const CHUNK_FRAMES: usize = 1 << 14;

struct Stacks<'a>(&'a Snapshot);

/// A stack: its number and its frames.
type Stack<'a> = (u64, &'a [FrameIndex]);

impl<'a> Rows for Stacks<'a> {
    type Row = Stack<'a>;

    fn column(&self, name: &str, rows: &[Stack<'a>]) -> ArrayRef {
        let text = |frames: &[FrameIndex]| {
            let lines: Vec<String> =
                frames.iter().map(|frame| frame_text(self.0.stacks.frame(*frame))).collect();
            (!lines.is_empty()).then(|| lines.join("\n"))
        };
        match name {
            "stack_id" => unsigned(rows, |(number, _)| Some(*number)),
            "depth" => unsigned(rows, |(_, frames)| Some(frames.len() as u64)),
            "stack" => texts(rows, |(_, frames)| text(frames)),
            other => unreachable!("{other} is not a column of stacks"),
        }
    }
}

struct Frames<'a>(&'a Snapshot);

impl<'a> Rows for Frames<'a> {
    /// The number of the stack, the place in it and the frame.
    type Row = (u64, u64, &'a Frame);

    fn column(&self, name: &str, rows: &[Self::Row]) -> ArrayRef {
        match name {
            "stack_id" => unsigned(rows, |(stack, _, _)| Some(*stack)),
            "depth" => unsigned(rows, |(_, depth, _)| Some(*depth)),
            "function" => texts(rows, |(_, _, frame)| Some(frame.name.clone())),
            "filename" => texts(rows, |(_, _, frame)| Some(frame.filename.clone())),
            "line" => unsigned(rows, |(_, _, frame)| Some(frame.line)),
            "library" => texts(rows, |(_, _, frame)| self.0.library(frame)),
            other => unreachable!("{other} is not a column of frames"),
        }
    }
}

/// Hands out the stacks.
pub(super) fn read(head: &Snapshot, sink: &mut Sink<'_>) -> Result<(), Stopped> {
    let rows: Vec<Stack<'_>> = (0..).zip(head.stacks.all_stacks()).collect();
    sink.take(&Stacks(head), rows)
}

/// Hands out the frames of each stack.
pub(super) fn read_frames(head: &Snapshot, sink: &mut Sink<'_>) -> Result<(), Stopped> {
    let mut rows = Vec::with_capacity(CHUNK_FRAMES);
    for (number, stack) in (0..).zip(head.stacks.all_stacks()) {
        let frames = (0..).zip(stack.iter().map(|frame| head.stacks.frame(*frame)));
        rows.extend(frames.map(|(depth, frame)| (number, depth, frame)));
        if rows.len() >= CHUNK_FRAMES {
            sink.take(&Frames(head), std::mem::take(&mut rows))?;
        }
    }
    sink.take(&Frames(head), rows)
}
