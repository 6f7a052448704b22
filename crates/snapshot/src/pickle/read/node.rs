//! Values while a file is read: small items that are copied, and containers that items refer to by number.

#![forbid(unsafe_code)]

use crate::model::{FrameIndex, StackIndex};

/// One value: on the operand stack, in the memo or in a container. It takes eight bytes, because a file can have one
/// for each of its bytes; what does not fit is in the arena `Nodes`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) enum Item {
    /// No value: an unused number of the memo, or a value that is in a field.
    #[default]
    Absent,
    None,
    Bool(bool),
    /// An integer of 32 bits.
    Int(i32),
    /// A larger integer of at most 64 bits: an index into the words of the arena `Nodes`.
    Long(u32),
    /// The bits of a double: an index into the words of the arena `Nodes`.
    Float(u32),
    Text(TextId),
    /// Raw bytes: an index into the spans of the arena `Nodes`.
    Bytes(u32),
    /// An integer beyond 64 bits: an index into the spans of the arena `Nodes`.
    Big(u32),
    /// A tuple of two integers: an index into the pairs of the arena `Nodes`.
    Pair(u32),
    /// A list, a tuple or a dictionary.
    Node(NodeId),
    /// A trace entry already decoded: its index among them.
    Entry(u32),
    /// Consecutive entries in a list: an index into the ranges of the arena `Nodes`.
    Entries(u32),
    /// A dictionary that is a frame and has no other use, already decoded.
    Frame(FrameIndex),
    /// A list of frames already decoded.
    Stack(StackIndex),
}

/// The number of a text of the file; equal texts have equal numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct TextId(pub(super) u32);

/// The number of a container of the file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Hash, Debug)]
pub(super) struct NodeId(pub(super) u32);

/// The type of a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    List,
    Tuple,
    /// Keys and values alternate.
    Dict,
}

/// A container.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) items: Vec<Item>,
    /// The offset of its first byte in the file.
    pub(super) offset: Offset,
    /// The number of values in it if nothing were shared, itself included.
    pub(super) weight: u32,
    pub(super) kind: Kind,
    /// The number of nested levels, itself included.
    pub(super) depth: u8,
    /// Whether it is in another container. It may not grow from then on, so that no container can contain itself.
    pub(super) is_frozen: bool,
    /// Whether a record was built from it.
    pub(super) is_record: bool,
    /// Whether it has a number in the memo, or a container that was fetched from the memo took it.
    pub(super) is_numbered: bool,
    /// Whether it, or a container that holds it, was fetched from the memo, so that it is in more than one place.
    pub(super) is_fetched: bool,
}

impl Node {
    /// Returns an empty container that starts at this offset.
    pub(super) fn new(kind: Kind, offset: usize) -> Node {
        Node {
            items: Vec::new(),
            offset: Offset::new(offset),
            weight: 1,
            kind,
            depth: 1,
            is_frozen: false,
            is_record: false,
            is_numbered: false,
            is_fetched: false,
        }
    }

    /// Returns whether it may be a list of frames, without inspecting its dictionaries.
    pub(super) fn could_be_stack(&self) -> bool {
        self.kind == Kind::List
            && self.items.iter().all(|item| matches!(item, Item::Node(_) | Item::Frame(_)))
    }
}

/// The offset of a byte in a file, in five bytes: a file has many containers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Offset([u8; 5]);

impl Offset {
    /// The number of bytes that have an offset.
    pub(super) const END: u64 = 1 << 40;

    /// Returns the offset. Longer files are refused before.
    fn new(offset: usize) -> Offset {
        let [bytes @ .., _, _, _] = (offset as u64).to_le_bytes();
        Offset(bytes)
    }
}

impl From<Offset> for u64 {
    fn from(Offset([a, b, c, d, e]): Offset) -> u64 {
        u64::from_le_bytes([a, b, c, d, e, 0, 0, 0])
    }
}

/// The most bytes of memory that the values of a file may take. Everything with a number takes at least eight bytes, so
/// there are fewer than 2^32 of a kind, even including some that a reader has not measured yet.
pub(super) const MAX_VALUES_BYTES: u64 = (8 << 32) - (8 << 20);

/// Converts an index to the 32 bits that items use.
///
/// # Panics
/// Beyond 2^32; a file whose values take more than [`MAX_VALUES_BYTES`] is refused before.
pub(super) fn number(index: usize) -> u32 {
    u32::try_from(index).expect("fewer things than eighths of the bytes that values may take")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_beyond_32_bits_is_kept_and_takes_no_room() {
        for offset in [0, 1, u64::from(u32::MAX), 1 << 32, (5 << 32) + 7, Offset::END - 1] {
            assert_eq!(u64::from(Offset::new(usize::try_from(offset).unwrap())), offset);
        }
        assert_eq!(size_of::<Node>(), 40);
        assert_eq!(size_of::<Item>(), 8, "the least of what has a number");
        const { assert!(MAX_VALUES_BYTES / 8 + (1 << 16) < 1 << 32) };
    }
}
