//! The texts of a file, numbered, and what they mean as keys of a trace entry.

#![forbid(unsafe_code)]

use std::{collections::HashMap, sync::Arc};

use super::node::{TextId, number};
use crate::{event::Action, snapshot::Text};

/// A key of a trace entry.
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
    /// A seeded hash: a hostile file chooses the keys and could make them collide.
    by_bytes: HashMap<&'a [u8], TextId>,
    all: Vec<Word>,
}

impl<'a> Words<'a> {
    /// Returns the number of these bytes, if they occurred before.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<TextId> {
        self.by_bytes.get(bytes).copied()
    }

    /// Numbers a new text.
    pub(super) fn add(&mut self, bytes: &'a [u8], text: &str) -> TextId {
        let id = TextId(number(self.all.len()));
        self.all.push(Word { text: Arc::from(text), key: key(text), action: Action::from_name(text) });
        self.by_bytes.insert(bytes, id);
        id
    }

    pub(super) fn get(&self, id: TextId) -> &Word {
        &self.all[id.0 as usize]
    }
}

fn key(text: &str) -> Key {
    match text {
        "action" => Key::Action,
        "addr" => Key::Addr,
        "device_free" => Key::DeviceFree,
        "size" => Key::Size,
        "stream" => Key::Stream,
        "time_us" => Key::TimeUs,
        "frames" => Key::Frames,
        _ => Key::Other,
    }
}
