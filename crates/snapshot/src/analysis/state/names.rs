//! The names that a program gave its blocks, each with a number.
//!
//! A file can give one long name to every block. The text of a name is read once, and blocks are compared by number.

use crate::{
    history::TextIds,
    model::{ShapeId, Snapshot, Text, TraceEntry, Value},
    words::{Action, SeededMap, SeededSet},
};

/// The names in the `annotate` entries of one device.
#[derive(Debug, Default)]
pub(super) struct BlockNameTable {
    /// By the shape of an entry, the number of its name.
    numbers: SeededMap<ShapeId, u32>,
    /// By the number of a name, a shape that has it.
    shapes: Vec<ShapeId>,
}

fn text(snapshot: &Snapshot, shape: ShapeId) -> Option<&Text> {
    let text = snapshot.shapes.get(shape).value("user_metadata").and_then(Value::as_text);
    text.filter(|text| !text.is_empty())
}

impl BlockNameTable {
    pub(super) fn new(snapshot: &Snapshot, entries: &[TraceEntry]) -> BlockNameTable {
        let (mut table, mut ids) = (BlockNameTable::default(), TextIds::default());
        for entry in entries.iter().filter(|entry| entry.action == Some(Action::Annotate)) {
            if table.numbers.contains_key(&entry.shape) {
                continue;
            }
            if let Some(text) = text(snapshot, entry.shape) {
                let number = ids.id(text);
                if number as usize == table.shapes.len() {
                    table.shapes.push(entry.shape);
                }
                table.numbers.insert(entry.shape, number);
            }
        }
        table
    }

    /// Returns the numbers of the names that some entries give, each once, in the order of the entries.
    pub(super) fn numbers<'e>(&self, entries: impl Iterator<Item = &'e TraceEntry>) -> Vec<u32> {
        let mut seen = SeededSet::default();
        let numbers = entries.filter_map(|entry| self.numbers.get(&entry.shape).copied());
        numbers.filter(|number| seen.insert(*number)).collect()
    }

    /// Returns the name with a number.
    pub(super) fn name<'a>(&self, number: u32, snapshot: &'a Snapshot) -> Option<&'a Text> {
        text(snapshot, *self.shapes.get(number as usize)?)
    }
}
