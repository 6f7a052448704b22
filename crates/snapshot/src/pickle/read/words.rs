//! The texts of a file, numbered, and their meaning as keys of a trace entry.

#![forbid(unsafe_code)]

use std::sync::Arc;

use super::node::{TextId, number};
use crate::{
    model::{Field, Text, schema},
    words::{Action, SeededMap},
};

/// A key of a trace entry. The decoder of entries compares it for each value, so it is smaller than [`Field`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Action,
    Addr,
    DeviceFree,
    Size,
    Stream,
    TimeUs,
    Frames,
    /// A key without a field.
    Other,
}

impl Key {
    /// Returns the key of a text by the schema's table.
    fn of(text: &str) -> Key {
        match schema::field_of(schema::ENTRY, text) {
            Some(Field::Action) => Key::Action,
            Some(Field::Addr) => Key::Addr,
            Some(Field::DeviceFree) => Key::DeviceFree,
            Some(Field::Size) => Key::Size,
            Some(Field::Stream) => Key::Stream,
            Some(Field::TimeUs) => Key::TimeUs,
            Some(Field::Frames) => Key::Frames,
            _ => Key::Other,
        }
    }

    /// Returns the field that takes the key's value.
    pub(super) fn field(self) -> Option<Field> {
        Some(match self {
            Key::Action => Field::Action,
            Key::Addr => Field::Addr,
            Key::DeviceFree => Field::DeviceFree,
            Key::Size => Field::Size,
            Key::Stream => Field::Stream,
            Key::TimeUs => Field::TimeUs,
            Key::Frames => Field::Frames,
            Key::Other => return None,
        })
    }
}

/// A text, with its meaning where an entry is read.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) text: Text,
    pub(super) key: Key,
    pub(super) action: Option<Action>,
}

/// The texts of a file, each stored once however often the file repeats it.
#[derive(Debug, Default)]
pub(super) struct Words<'a> {
    by_bytes: SeededMap<&'a [u8], TextId>,
    all: Vec<Word>,
    /// The bytes of all texts.
    n_text_bytes: usize,
}

/// What a text takes in addition to its bytes: its reference counts, the allocator's overhead, and its slot in the map,
/// which has free slots and is copied when it grows.
const BYTES_OF_TEXT: usize = 32 + 3 * size_of::<(&[u8], TextId)>();

impl<'a> Words<'a> {
    /// Returns the number of these bytes, if they occurred before.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<TextId> {
        self.by_bytes.get(bytes).copied()
    }

    /// Returns the bytes of memory that it takes.
    pub(super) fn n_bytes(&self) -> usize {
        self.n_text_bytes + self.all.len() * (size_of::<Word>() + BYTES_OF_TEXT)
    }

    /// Numbers a new text.
    pub(super) fn add(&mut self, bytes: &'a [u8], text: &str) -> TextId {
        let id = TextId(number(self.all.len()));
        self.all.push(Word { text: Arc::from(text), key: Key::of(text), action: Action::from_name(text) });
        self.by_bytes.insert(bytes, id);
        self.n_text_bytes += text.len();
        id
    }

    pub(super) fn get(&self, id: TextId) -> &Word {
        &self.all[id.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_an_entry_has_a_key() {
        for key in schema::ENTRY {
            assert_eq!(Key::of(key.name).field(), key.field, "{}", key.name);
        }
        assert_eq!(Key::of("address"), Key::Other, "a key of blocks");
    }
}
