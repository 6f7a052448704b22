//! The containers of a file, in one array: dropping or checking them never recurses, however deep the file nests.

#![forbid(unsafe_code)]

use super::node::{Item, Kind, Node, NodeId, number};
use crate::{
    error::{Error, Result},
    seeded::SeededMap,
};

/// The deepest nesting of containers; serde_json reads 128 levels at most, and a snapshot has 8.
const MAX_DEPTH: u8 = 100;

/// Everything that a file's items refer to, except its texts.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    all: Vec<Node>,
    /// First byte and end of raw bytes and large integers.
    spans: Vec<(usize, usize)>,
    pairs: Vec<(i64, i64)>,
    pair_ids: SeededMap<(i64, i64), u32>,
    /// The bytes of memory that the items of all containers take.
    n_item_bytes: usize,
}

/// What a number takes in a map beside its key: it and free places.
const BYTES_IN_MAP: usize = 48;

impl Nodes {
    /// Returns the bytes of memory that it takes, without those that the allocator adds.
    pub(super) fn n_bytes(&self) -> usize {
        let of_pair = 2 * size_of::<(i64, i64)>() + BYTES_IN_MAP;
        self.all.len() * size_of::<Node>()
            + self.n_item_bytes
            + self.spans.len() * size_of::<(usize, usize)>()
            + self.pairs.len() * of_pair
    }

    /// Adds an empty container that begins at this offset.
    pub(super) fn add(&mut self, kind: Kind, offset: usize) -> NodeId {
        let id = NodeId(number(self.all.len()));
        self.all.push(Node::new(kind, offset));
        id
    }

    pub(super) fn get(&self, id: NodeId) -> &Node {
        &self.all[id.0 as usize]
    }

    pub(super) fn get_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.all[id.0 as usize]
    }

    /// Forbids that a container grows.
    pub(super) fn freeze(&mut self, id: NodeId) {
        self.get_mut(id).is_frozen = true;
    }

    /// Numbers a range of the file's bytes.
    pub(super) fn add_span(&mut self, from: usize, to: usize) -> u32 {
        self.spans.push((from, to));
        number(self.spans.len() - 1)
    }

    /// Returns first byte and end of a numbered range.
    pub(super) fn span(&self, index: u32) -> (usize, usize) {
        self.spans[index as usize]
    }

    /// Returns the item of a tuple of two integers; equal tuples are equal items.
    pub(super) fn add_pair(&mut self, pair: (i64, i64)) -> Item {
        let pairs = &mut self.pairs;
        Item::Pair(*self.pair_ids.entry(pair).or_insert_with(|| {
            pairs.push(pair);
            number(pairs.len() - 1)
        }))
    }

    pub(super) fn pair(&self, index: u32) -> (i64, i64) {
        self.pairs[index as usize]
    }

    /// Adds items to a container, and freezes the containers among them.
    ///
    /// # Errors
    /// If the container is frozen, would contain itself, or nests too deep.
    pub(super) fn grow(&mut self, id: NodeId, items: &[Item], start: usize) -> Result<()> {
        let Node { weight, depth, is_frozen, .. } = *self.get(id);
        if is_frozen && !items.is_empty() {
            return Err(grows_after_use(start));
        }
        let (mut weight, mut depth) = (weight, depth);
        for item in items {
            let (item_weight, item_depth) = self.measured(*item, id, start)?;
            weight = weight.saturating_add(item_weight);
            depth = depth.max(item_depth + 1);
        }
        if depth > MAX_DEPTH {
            let what = format!("containers nest more than {MAX_DEPTH} deep; a snapshot has 8 levels");
            return Err(Error::malformed(start as u64, what));
        }
        let node = self.get_mut(id);
        (node.weight, node.depth) = (weight, depth);
        let before = node.items.capacity();
        node.add(items);
        let n_more = node.items.capacity() - before;
        self.n_item_bytes += n_more * size_of::<Item>();
        Ok(())
    }

    /// Freezes an item that a container takes; returns its weight and depth.
    fn measured(&mut self, item: Item, holder: NodeId, start: usize) -> Result<(u32, u8)> {
        match item {
            Item::Node(id) if id == holder => {
                Err(Error::malformed(start as u64, "a container holds itself; no snapshot does"))
            }
            Item::Node(id) => {
                let node = self.get_mut(id);
                node.is_frozen = true;
                Ok((node.weight, node.depth))
            }
            Item::Entry(_) | Item::Entries(..) | Item::Stack(_) => Ok((1, 4)),
            _ => Ok((1, 0)),
        }
    }
}

#[cold]
fn grows_after_use(start: usize) -> Error {
    let what =
        "a container grows after another took it, as only one that holds itself does; no snapshot has one";
    Error::malformed(start as u64, what)
}
