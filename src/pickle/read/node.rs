//! Values while a file is read: small copyable items, containers numbered in an arena.
//!
//! An arena has no depth, so dropping or checking it never recurses, whatever
//! the file nests.

#![forbid(unsafe_code)]

use std::sync::Arc;

use std::collections::HashMap;

use crate::{
    event::Action,
    snapshot::{StackIndex, Text},
};

/// One value on the stack, in the memo or in a container.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) enum Item {
    /// Nothing was put here.
    #[default]
    Absent,
    None,
    Bool(bool),
    Int(i64),
    /// The bits of a double.
    Float(u64),
    Text(TextId),
    /// Raw bytes: where they stand in [`Nodes::spans`].
    Bytes(u32),
    /// An integer beyond 64 bits: where it stands in [`Nodes::spans`].
    Big(u32),
    /// A tuple of two integers: its place in [`Nodes::pairs`].
    Pair(u32),
    /// A list, a tuple or a dictionary.
    Node(NodeId),
    /// A trace entry already decoded: its place among them.
    Entry(u32),
    /// Entries side by side in a list: the first one's place, and the place after the last.
    Entries(u32, u32),
    /// A list of frames already decoded.
    Stack(StackIndex),
}

/// The number of a text of the file; equal texts have equal numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct TextId(pub(super) u32);

/// The number of a container of the file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct NodeId(pub(super) u32);

/// Which container it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    List,
    Tuple,
    /// Keys and values in turn.
    Dict,
}

/// A container.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) items: Vec<Item>,
    /// Where it begins in the file.
    pub(super) offset: u64,
    /// How many values it would hold if nothing were shared, itself included.
    pub(super) weight: u32,
    pub(super) kind: Kind,
    /// How many containers it holds one inside the other, itself included.
    pub(super) depth: u8,
    /// Whether another container holds it; it may not grow from then on, so
    /// that no container can come to hold itself.
    pub(super) is_frozen: bool,
    /// Whether a record was made of it.
    pub(super) is_record: bool,
}

impl Node {
    /// Whether it may be a list of frames; a first look, before its dictionaries are.
    pub(super) fn could_be_stack(&self) -> bool {
        self.kind == Kind::List && self.items.iter().all(|item| matches!(item, Item::Node(_)))
    }

    /// Adds items to a list, entries side by side as one.
    pub(super) fn add_entries(&mut self, items: &[Item]) {
        for item in items {
            match (self.items.last_mut(), item) {
                (Some(Item::Entries(_, end)), Item::Entry(at)) if end == at => *end += 1,
                (_, Item::Entry(at)) => self.items.push(Item::Entries(*at, at + 1)),
                (_, item) => self.items.push(*item),
            }
        }
    }
}

/// A key with a meaning in a trace entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Action,
    Addr,
    DeviceFree,
    Size,
    Stream,
    TimeUs,
    Frames,
    /// Vanishes in the viewer.
    Proto,
    Other,
}

/// A text, and what it means where an entry is read.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) text: Text,
    pub(super) key: Key,
    pub(super) action: Option<Action>,
}

/// The texts of a file, each held once however often it is written out.
#[derive(Debug, Default)]
pub(super) struct Words<'a> {
    /// A seeded hash: the file chooses the keys, and could choose them to collide.
    by_bytes: HashMap<&'a [u8], TextId>,
    all: Vec<Word>,
}

impl<'a> Words<'a> {
    /// The number of these bytes, if they were met before.
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
        "__proto__" => Key::Proto,
        _ => Key::Other,
    }
}

/// Everything a file's items point to, save its texts.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    pub(super) all: Vec<Node>,
    /// First and last byte of raw bytes and large integers.
    pub(super) spans: Vec<(usize, usize)>,
    pub(super) pairs: Vec<(i64, i64)>,
    pair_ids: HashMap<(i64, i64), u32>,
}

impl Nodes {
    /// A new container.
    pub(super) fn add(&mut self, kind: Kind, offset: usize) -> NodeId {
        let id = NodeId(number(self.all.len()));
        self.all.push(Node {
            items: Vec::new(),
            offset: offset as u64,
            weight: 1,
            kind,
            depth: 1,
            is_frozen: false,
            is_record: false,
        });
        id
    }

    pub(super) fn get(&self, id: NodeId) -> &Node {
        &self.all[id.0 as usize]
    }

    pub(super) fn get_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.all[id.0 as usize]
    }

    pub(super) fn span(&mut self, from: usize, to: usize) -> u32 {
        self.spans.push((from, to));
        number(self.spans.len() - 1)
    }

    pub(super) fn pair(&mut self, pair: (i64, i64)) -> Item {
        let pairs = &mut self.pairs;
        Item::Pair(*self.pair_ids.entry(pair).or_insert_with(|| {
            pairs.push(pair);
            number(pairs.len() - 1)
        }))
    }
}

/// # Panics
/// Beyond 2^32 things of a kind: files of 4 GiB are refused before.
pub(super) fn number(index: usize) -> u32 {
    u32::try_from(index).expect("fewer things than bytes, and fewer than 2^32 bytes")
}
