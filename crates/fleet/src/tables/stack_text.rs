//! Stacks as texts: a line for each frame, innermost first.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::HashMap,
};

use datafusion::arrow::array::ArrayRef;
use memreel_snapshot::{
    Snapshot,
    analysis::{Owners, ShownFrames},
    model::{Frame, StackIndex, StackTable},
};

use crate::{
    columns::{numbered_texts, unsigned},
    sink::Counters,
};

/// The stacks of a file, which become texts when a column of them is asked for.
pub(crate) struct StackTexts<'a> {
    snapshot: &'a Snapshot,
    shown: OnceCell<ShownFrames<'a>>,
    owners: RefCell<Owners<'a>>,
    n_named: Cell<usize>,
    n_bytes: Cell<usize>,
}

impl<'a> StackTexts<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> StackTexts<'a> {
        let owners = RefCell::new(Owners::new(snapshot));
        StackTexts { snapshot, shown: OnceCell::new(), owners, n_named: Cell::new(0), n_bytes: Cell::new(0) }
    }

    /// Adds to the counters how many texts were made of stacks, and their bytes.
    pub(crate) fn count(&self, counters: &Counters) {
        counters.stack_texts.add(self.n_named.get());
        counters.stack_text_bytes.add(self.n_bytes.get());
    }

    /// Returns a column about stacks, or `None` if the column has another name.
    pub(crate) fn column<R>(
        &self,
        name: &str,
        rows: &[R],
        stack: impl Fn(&R) -> Option<StackIndex>,
    ) -> Option<ArrayRef> {
        let index = |row: &R| stack(row).filter(|stack| *stack != StackTable::EMPTY);
        let number = |row: &R| index(row).map(|stack| stack.index() as u32);
        let text = |of: fn(&Self, StackIndex) -> String| {
            // A number of a row names the stack that the row had.
            let by_number: HashMap<u32, StackIndex> =
                rows.iter().filter_map(index).map(|stack| (stack.index() as u32, stack)).collect();
            numbered_texts(rows, number, |number| {
                let text = of(self, by_number[&number]);
                self.n_named.set(self.n_named.get() + 1);
                self.n_bytes.set(self.n_bytes.get() + text.len());
                text
            })
        };
        match name {
            "stack_id" => Some(unsigned(rows, |row| stack(row).map(|stack| stack.index() as u64))),
            "stack" => Some(text(Self::all_frames)),
            "site" => Some(text(Self::identifying)),
            "owner" => Some(text(Self::owner)),
            _ => None,
        }
    }

    fn all_frames(&self, stack: StackIndex) -> String {
        lines(self.snapshot.stacks.frames(stack))
    }

    fn identifying(&self, stack: StackIndex) -> String {
        let shown = self.shown.get_or_init(|| ShownFrames::new(self.snapshot));
        lines(shown.identifying_frames(stack))
    }

    fn owner(&self, stack: StackIndex) -> String {
        self.owners.borrow_mut().of(Some(stack)).to_string()
    }
}

/// Returns the frame as text: `forward (/home/me/train.py:10)`.
pub(crate) fn frame_text(frame: &Frame) -> String {
    let line = if frame.line == 0 { String::new() } else { format!(":{}", frame.line) };
    format!("{} ({}{line})", frame.name, frame.filename).replace(['\n', '\r'], " ")
}

fn lines<'f>(frames: impl Iterator<Item = &'f Frame>) -> String {
    frames.map(frame_text).collect::<Vec<_>>().join("\n")
}
