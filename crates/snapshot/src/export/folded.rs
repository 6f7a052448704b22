//! Writes each stack on one line, outermost frame first, with its bytes in use, for flame graph tools.
//!
//! A line has the frames that identify the allocation, as the tree of `memreel top` does. Lines are in the order of
//! their texts, which are compared and written piece by piece: together they can be far longer than the file.

use std::{cmp::Ordering, collections::BTreeMap, io};

use super::{in_use::in_use, text::Out};
use crate::{
    analysis::ShownFrames,
    history::FrameIds,
    model::{FrameIndex, Snapshot, StackIndex, StackTable},
    words::paths::base_name,
};

pub(super) fn write(snapshot: &Snapshot, sink: &mut impl io::Write) -> io::Result<()> {
    // Sum by stack first: many blocks may share a stack, and a line is long.
    let mut sums: BTreeMap<Option<StackIndex>, u64> = BTreeMap::new();
    for (stack, bytes) in in_use(snapshot) {
        let sum = sums.entry(stack).or_default();
        *sum = sum.saturating_add(bytes);
    }
    let shown = ShownFrames::new(snapshot);
    let mut same = SameTexts::new(&snapshot.stacks);
    let mut lines: Vec<Line<'_>> = sums
        .into_iter()
        .map(|(stack, bytes)| {
            let frames = stack.into_iter().flat_map(|stack| shown.identifying(stack).rev());
            Line { stacks: &snapshot.stacks, frames: frames.map(|frame| same.first(frame)).collect(), bytes }
        })
        .collect();
    lines.sort_by(Line::compare);
    let mut out = Out::new(sink);
    for equal in lines.chunk_by(|one, other| one.compare(other) == Ordering::Equal) {
        let bytes = equal.iter().fold(0_u64, |sum, line| sum.saturating_add(line.bytes));
        equal[0].pieces(0).for_each(|piece| piece.write(&mut out));
        out.text(" ").int(bytes).text("\n");
        if !out.spill() {
            break;
        }
    }
    out.finish()
}

/// The first of the frames with one name, file and line.
struct SameTexts<'a> {
    stacks: &'a StackTable,
    ids: FrameIds<'a>,
    first: Vec<FrameIndex>,
}

impl<'a> SameTexts<'a> {
    fn new(stacks: &'a StackTable) -> SameTexts<'a> {
        SameTexts { stacks, ids: FrameIds::default(), first: Vec::new() }
    }

    fn first(&mut self, index: FrameIndex) -> FrameIndex {
        let id = self.ids.id(self.stacks.frame(index)) as usize;
        if id == self.first.len() {
            self.first.push(index);
        }
        self.first[id]
    }
}

/// A stack with its number of bytes.
struct Line<'a> {
    stacks: &'a StackTable,
    /// The outermost first; equal frames have equal numbers.
    frames: Vec<FrameIndex>,
    bytes: u64,
}

/// A piece of a line.
enum Piece<'a> {
    /// A separator, which is as it is.
    Text(&'static str),
    Number(u64),
    /// A name or a file. A semicolon would end the frame, and a newline the line.
    Name(&'a str),
}

impl<'a> Line<'a> {
    /// Returns the pieces of the text from a frame on.
    fn pieces(&self, first: usize) -> impl Iterator<Item = Piece<'a>> {
        let none = self.frames.is_empty().then_some(Piece::Text("(no stack)"));
        let frames = self.frames.iter().enumerate().skip(first);
        none.into_iter().chain(frames.flat_map(|(nth, frame)| {
            let frame = self.stacks.frame(*frame);
            let file = base_name(&frame.filename);
            [
                Piece::Text(if nth > 0 { ";" } else { "" }),
                Piece::Name(file),
                Piece::Text(":"),
                Piece::Number(frame.line),
                Piece::Text(":"),
                Piece::Name(&frame.name),
            ]
        }))
    }

    /// Compares the texts.
    fn compare(&self, other: &Line<'_>) -> Ordering {
        let both = self.frames.iter().zip(&other.frames);
        let n_same = both.take_while(|(one, other)| one == other).count();
        self.pieces(n_same).flat_map(Piece::bytes).cmp(other.pieces(n_same).flat_map(Piece::bytes))
    }
}

impl<'a> Piece<'a> {
    fn bytes(self) -> impl Iterator<Item = u8> + 'a {
        let number = match self {
            Piece::Number(number) => itoa::Buffer::new().format(number).to_owned(),
            _ => String::new(),
        };
        let text = match self {
            Piece::Text(text) | Piece::Name(text) => text,
            Piece::Number(_) => "",
        };
        let is_name = matches!(self, Piece::Name(_));
        let replaced = move |byte: u8| if is_name && matches!(byte, b';' | b'\n') { b' ' } else { byte };
        number.into_bytes().into_iter().chain(text.bytes().map(replaced))
    }

    fn write<W: io::Write>(self, out: &mut Out<'_, W>) {
        match self {
            Piece::Text(text) => drop(out.text(text)),
            Piece::Number(number) => drop(out.int(number)),
            Piece::Name(name) => {
                for (nth, part) in name.split([';', '\n']).enumerate() {
                    out.text(if nth > 0 { " " } else { "" }).text(part);
                }
            }
        }
        out.spill();
    }
}
