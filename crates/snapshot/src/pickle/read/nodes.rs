//! Stores the containers of a file in one array: dropping or checking them never recurses, however deep the file nests.

#![forbid(unsafe_code)]

use super::node::{Item, Kind, Node, NodeId, number};
use crate::words::{Error, Result, SeededMap};

/// The deepest nesting of containers; serde_json reads 128 levels at most, and a snapshot has 8.
const MAX_DEPTH: u8 = 100;

/// Everything that a file's items refer to, except its texts.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    all: Vec<Node>,
    /// First byte and end of raw bytes and large integers.
    spans: Vec<(usize, usize)>,
    /// Integers of more than 32 bits, and the bits of doubles.
    words: Vec<i64>,
    /// Consecutive entries: the index of the first, and the index after the last.
    ranges: Vec<(u32, u32)>,
    pairs: Vec<(i64, i64)>,
    pair_ids: SeededMap<(i64, i64), u32>,
    /// The bytes of memory that the items of all containers take.
    n_item_bytes: usize,
    /// Whether the file was read to its end, so that nothing is fetched from the memo any more.
    is_complete: bool,
    /// The first of the containers from which something is being built, if they are in only one place.
    private: Option<NodeId>,
    /// The last containers with exactly one number in the memo, and that number; rising.
    numbers: Vec<(NodeId, u32)>,
}

/// Where the memo has a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum InMemo {
    Nowhere,
    /// Under this number, and no other.
    At(u32),
}

/// How many containers are remembered with their numbers: those that an entry nests, many times over.
const MAX_NUMBERS: usize = 64;

/// What a number takes in a map in addition to its key: itself and free slots.
const BYTES_IN_MAP: usize = 48;

impl Nodes {
    /// Returns the bytes of memory that it takes, without those that the allocator adds.
    pub(super) fn n_bytes(&self) -> usize {
        let of_pair = 2 * size_of::<(i64, i64)>() + BYTES_IN_MAP;
        self.all.len() * size_of::<Node>()
            + self.n_item_bytes
            + self.spans.len() * size_of::<(usize, usize)>()
            + self.words.len() * size_of::<i64>()
            + self.ranges.len() * size_of::<(u32, u32)>()
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

    /// Prevents a container from growing.
    pub(super) fn freeze(&mut self, id: NodeId) {
        self.get_mut(id).is_frozen = true;
    }

    /// Records the number that a container gets in the memo.
    pub(super) fn number(&mut self, id: NodeId, number: u32) {
        if std::mem::replace(&mut self.get_mut(id).is_numbered, true) {
            self.numbers.retain(|(numbered, _)| *numbered != id);
        } else if self.numbers.last().is_none_or(|(last, _)| *last < id) {
            if self.numbers.len() == MAX_NUMBERS {
                self.numbers.clear();
            }
            self.numbers.push((id, number));
        }
    }

    /// Returns the only place of a container in the memo, if it and all that began since it can be replaced: the memo
    /// has no other, and has none of those in it.
    pub(super) fn place_in_memo(&self, id: NodeId) -> Option<InMemo> {
        let node = self.get(id);
        let inner = &self.all[id.0 as usize + 1..];
        if node.is_fetched || inner.iter().any(|node| node.is_numbered) {
            return None;
        }
        if !node.is_numbered {
            return Some(InMemo::Nowhere);
        }
        let (_, number) = self.numbers.iter().rev().find(|(numbered, _)| *numbered == id)?;
        Some(InMemo::At(*number))
    }

    /// Frees a container and all that started since it, once something else was built from them.
    pub(super) fn remove_from(&mut self, id: NodeId) {
        let removed = self.all.drain(id.0 as usize..);
        self.n_item_bytes -= removed.map(|node| n_allocated(&node.items)).sum::<usize>();
        self.forget_numbers();
    }

    /// Forgets the numbers of containers that were freed: other containers get their ids.
    fn forget_numbers(&mut self) {
        while self.numbers.last().is_some_and(|(id, _)| id.0 as usize >= self.all.len()) {
            self.numbers.pop();
        }
    }

    /// Records that an item was fetched from the memo, so that it is in more than one place.
    pub(super) fn mark_fetched(&mut self, item: Item) {
        if let Item::Node(id) = item {
            self.get_mut(id).is_fetched = true;
        }
    }

    /// Ends the time in which containers are fetched from the memo: what is in a fetched one is in more than one
    /// place too.
    pub(super) fn complete(&mut self) {
        self.is_complete = true;
        let fetched = (0..self.all.len()).filter(|at| self.all[*at].is_fetched);
        let mut todo: Vec<NodeId> = fetched.map(|at| NodeId(number(at))).collect();
        while let Some(id) = todo.pop() {
            for at in 0..self.get(id).items.len() {
                if let Item::Node(inner) = self.get(id).items[at]
                    && !std::mem::replace(&mut self.get_mut(inner).is_fetched, true)
                {
                    todo.push(inner);
                }
            }
        }
    }

    /// Starts to build something from a container, and from those that started since it, before the file's end. Until
    /// [`Nodes::end_making`], they are in one place.
    pub(super) fn begin_making(&mut self, id: NodeId) {
        self.private = Some(id);
    }

    /// Ends what [`Nodes::begin_making`] began.
    pub(super) fn end_making(&mut self) {
        self.private = None;
    }

    /// Returns whether a container is, and will be, in one place only.
    pub(super) fn is_single(&self, id: NodeId) -> bool {
        if self.is_complete {
            !self.get(id).is_fetched
        } else {
            self.private.is_some_and(|first| first <= id)
        }
    }

    /// Takes the items out of a container.
    pub(super) fn take(&mut self, id: NodeId) -> Vec<Item> {
        let items = std::mem::take(&mut self.get_mut(id).items);
        self.n_item_bytes -= n_allocated(&items);
        items
    }

    /// Frees the items of a container that is in only one place, once something else was built from it.
    pub(super) fn release(&mut self, id: NodeId) {
        if self.is_single(id) {
            self.take(id);
        }
    }

    /// Returns the item of an integer.
    pub(super) fn add_int(&mut self, int: i64) -> Item {
        match i32::try_from(int) {
            Ok(int) => Item::Int(int),
            Err(_) => Item::Long(self.add_word(int)),
        }
    }

    /// Returns the item of a double with these bits.
    pub(super) fn add_float(&mut self, bits: u64) -> Item {
        Item::Float(self.add_word(bits.cast_signed()))
    }

    fn add_word(&mut self, word: i64) -> u32 {
        self.words.push(word);
        number(self.words.len() - 1)
    }

    /// Returns the integer of an item, if it is one of at most 64 bits.
    pub(super) fn int(&self, item: Item) -> Option<i64> {
        match item {
            Item::Int(int) => Some(i64::from(int)),
            Item::Long(at) => Some(self.words[at as usize]),
            _ => None,
        }
    }

    /// Returns the double with a number from [`Nodes::add_float`].
    pub(super) fn float(&self, at: u32) -> f64 {
        f64::from_bits(self.words[at as usize].cast_unsigned())
    }

    /// Returns a key that is equal for items of equal values, and differs for others.
    pub(super) fn identity(&self, item: Item) -> (Item, i64) {
        match item {
            Item::Long(at) => (Item::Long(0), self.words[at as usize]),
            Item::Float(at) => (Item::Float(0), self.words[at as usize]),
            _ => (item, 0),
        }
    }

    /// Returns the entries of an item that stands for several: the index of the first, and the index after the last.
    pub(super) fn range(&self, at: u32) -> (u32, u32) {
        self.ranges[at as usize]
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
        let Node { weight, depth, is_frozen, is_fetched, .. } = *self.get(id);
        if is_frozen && !items.is_empty() {
            return Err(grows_after_use(start));
        }
        let (mut weight, mut depth) = (weight, depth);
        for item in items {
            if is_fetched && let Item::Node(inner) = *item {
                // Whatever it is part of now, the memo has it through this container too.
                self.get_mut(inner).is_numbered = true;
            }
            let (item_weight, item_depth) = self.measured(*item, id, start)?;
            weight = weight.saturating_add(item_weight);
            depth = depth.max(item_depth + 1);
        }
        if depth > MAX_DEPTH {
            let what = format!("containers nest more than {MAX_DEPTH} deep; a snapshot has 8 levels");
            return Err(Error::malformed(start as u64, what));
        }
        let Nodes { all, ranges, .. } = self;
        let node = &mut all[id.0 as usize];
        (node.weight, node.depth) = (weight, depth);
        let before = n_allocated(&node.items);
        add(node, items, ranges);
        self.n_item_bytes += n_allocated(&node.items) - before;
        Ok(())
    }

    /// Freezes an item that a container takes; returns its weight and depth.
    fn measured(&mut self, item: Item, holder: NodeId, start: usize) -> Result<(u32, u8)> {
        match item {
            Item::Node(id) if id == holder => {
                Err(Error::malformed(start as u64, "a container contains itself; no snapshot does"))
            }
            Item::Node(id) => {
                let node = self.get_mut(id);
                node.is_frozen = true;
                Ok((node.weight, node.depth))
            }
            Item::Frame(_) => Ok((7, 1)),
            Item::Entry(_) | Item::Entries(..) | Item::Stack(_) => Ok((1, 4)),
            _ => Ok((1, 0)),
        }
    }
}

/// Returns the bytes that an allocator takes for items: in steps of 16 bytes, and at least 32.
fn n_allocated(items: &Vec<Item>) -> usize {
    match items.capacity() {
        0 => 0,
        n => (n * size_of::<Item>() + 8).next_multiple_of(16).max(32),
    }
}

/// Adds items at the end of a container; consecutive entries of a list become one item.
fn add(node: &mut Node, items: &[Item], ranges: &mut Vec<(u32, u32)>) {
    let has_entries = node.kind == Kind::List && items.iter().any(|item| matches!(item, Item::Entry(_)));
    if !has_entries {
        if node.items.is_empty() {
            // Most containers get all their items at once.
            node.items.reserve_exact(items.len());
        }
        return node.items.extend_from_slice(items);
    }
    for item in items {
        let Item::Entry(entry) = *item else {
            node.items.push(*item);
            continue;
        };
        let last = if let Some(Item::Entries(at)) = node.items.last() { Some(*at as usize) } else { None };
        match last.map(|at| &mut ranges[at].1) {
            Some(end) if *end == entry => *end += 1,
            _ => {
                ranges.push((entry, entry + 1));
                node.items.push(Item::Entries(number(ranges.len() - 1)));
            }
        }
    }
}

#[cold]
fn grows_after_use(start: usize) -> Error {
    let what = "a container grows after being put into another, as only one that contains itself does; no \
                snapshot \
                has one";
    Error::malformed(start as u64, what)
}
