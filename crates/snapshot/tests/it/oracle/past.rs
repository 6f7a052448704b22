//! What a world remembers of a device: each event, and from when to when each block and each segment existed.

/// Not within the history.
pub(crate) const NEVER: usize = usize::MAX;

/// Whom a range serves: the stream, the pool's two numbers, and whether it is for small blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Key {
    pub(crate) stream: i64,
    pub(crate) pool: (u64, u64),
    pub(crate) is_small: bool,
}

/// What happened, as a recorder that loses nothing writes it.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) action: &'static str,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) stream: i64,
    pub(crate) pool: (u64, u64),
    pub(crate) time_us: i64,
    /// The call that caused it.
    pub(crate) call: Option<usize>,
    /// The call that allocated the block, for events of a block.
    pub(crate) allocated_by: Option<usize>,
    /// The names of the open scopes.
    pub(crate) scope: String,
    /// The names of those that were opened on its device.
    pub(crate) device_scope: String,
}

/// A block from its alloc to the end of its free. Moments are numbers of events that have happened.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) address: u64,
    pub(crate) requested: u64,
    pub(crate) size: u64,
    pub(crate) key: Key,
    pub(crate) call: usize,
    pub(crate) from: usize,
    pub(crate) freed: usize,
    pub(crate) until: usize,
}

/// A segment, or a page of an expandable one.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) key: Key,
    pub(crate) is_expandable: bool,
    pub(crate) call: usize,
    pub(crate) from: usize,
    pub(crate) until: usize,
}

/// Whether something exists after `moment` events.
fn is_there(from: usize, until: usize, moment: usize) -> bool {
    from <= moment && moment < until
}

impl Block {
    pub(crate) fn is_active(&self, moment: usize) -> bool {
        is_there(self.from, self.until, moment)
    }

    pub(crate) fn is_held(&self, moment: usize) -> bool {
        is_there(self.from, self.freed, moment)
    }
}

/// One device with its whole past.
#[derive(Clone, Debug, Default)]
pub(crate) struct Device {
    pub(crate) number: u64,
    pub(crate) is_expandable: bool,
    /// Where its addresses begin.
    pub(crate) base: u64,
    pub(crate) events: Vec<Event>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) pieces: Vec<Piece>,
}

/// Adjacent pieces of one key: a segment as a snapshot shows it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Range {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) key: Key,
    pub(crate) is_expandable: bool,
    pub(crate) call: usize,
}

impl Device {
    pub(crate) fn now(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn active(&self, moment: usize) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(move |block| block.is_active(moment))
    }

    /// The segments at a moment, by address.
    pub(crate) fn ranges(&self, moment: usize) -> Vec<Range> {
        let there = |piece: &&Piece| is_there(piece.from, piece.until, moment);
        let mut pieces: Vec<&Piece> = self.pieces.iter().filter(there).collect();
        pieces.sort_by_key(|piece| piece.address);
        let mut ranges: Vec<Range> = Vec::new();
        for piece in pieces {
            let Piece { address, bytes, key, is_expandable, call, .. } = *piece;
            match ranges.last_mut() {
                Some(last)
                    if last.is_expandable
                        && is_expandable
                        && last.key == key
                        && last.address + last.bytes == address =>
                {
                    last.bytes += bytes;
                }
                _ => ranges.push(Range { address, bytes, key, is_expandable, call }),
            }
        }
        ranges
    }

    /// The free stretches of a range at a moment, where each block has the size that `size` gives it.
    pub(crate) fn gaps(&self, range: &Range, moment: usize, size: impl Fn(&Block) -> u64) -> Vec<(u64, u64)> {
        let within =
            |block: &&Block| block.address >= range.address && block.address < range.address + range.bytes;
        let mut taken: Vec<(u64, u64)> = self
            .active(moment)
            .filter(within)
            .map(|block| (block.address, block.address + size(block)))
            .collect();
        taken.sort_unstable();
        taken.push((range.address + range.bytes, 0));
        let mut free_from = range.address;
        let mut gaps = Vec::new();
        for (start, end) in taken {
            if start > free_from {
                gaps.push((free_from, start - free_from));
            }
            free_from = end;
        }
        gaps
    }
}
