//! The blocks of a packed tape: each with its kind, its number, its sizes and a checksum, compressed if that is shorter.
#![forbid(unsafe_code)]

use lz4_flex::block::{compress, decompress_into};

use super::super::layout::STEP_BYTES;

/// The size of what precedes the bytes of a block: kind, number, sizes, and the checksums of the bytes and of these words.
pub(super) const HEAD_BYTES: usize = 24;

/// The most bytes that a block has before it is compressed: more than those of a step, whose events may take a little more in
/// columns.
const MAX_BYTES: usize = 4 * STEP_BYTES;

/// How much longer than in the file what a block stands for may be: a short file must not take all memory.
const MAX_RATIO: usize = 1 << 10;

/// What a block has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockKind {
    /// The header of the tape, and what is added to it.
    Header = 1,
    /// The slots of a step.
    Step = 2,
    /// Nothing: the file is complete.
    End = 3,
}

/// What precedes a block's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BlockHead {
    pub(super) kind: BlockKind,
    /// Of a step, its place in the tape; of the end, the number of steps.
    pub(super) number: u32,
    n_bytes: u32,
    pub(super) n_packed: u32,
    sum: u32,
}

/// Appends a block, which stands for `n_slot_bytes` bytes of slots.
pub(super) fn push_block(
    file: &mut Vec<u8>,
    kind: BlockKind,
    number: u32,
    bytes: &[u8],
    n_slot_bytes: usize,
) {
    let compressed = compress(bytes);
    let is_worth_it = compressed.len() < bytes.len() && is_bounded(n_slot_bytes, compressed.len());
    let packed = if is_worth_it { &compressed } else { bytes };
    let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let words = [kind as u32, number, size(bytes), size(packed), crc32fast::hash(packed)];
    let head: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    file.extend(&head);
    file.extend(crc32fast::hash(&head).to_le_bytes());
    file.extend(packed);
}

/// Returns whether a block of a file may stand for so many bytes of slots.
pub(super) fn is_bounded(n_slot_bytes: usize, n_packed: usize) -> bool {
    n_slot_bytes <= MAX_RATIO * (n_packed + HEAD_BYTES)
}

impl BlockHead {
    /// Reads what precedes a block's bytes; `None` if it is damaged.
    pub(super) fn of(bytes: &[u8; HEAD_BYTES]) -> Option<BlockHead> {
        let word = |at: usize| u32::from_le_bytes(bytes[4 * at..4 * at + 4].try_into().unwrap_or_default());
        let all = [BlockKind::Header, BlockKind::Step, BlockKind::End];
        let kind = all.into_iter().find(|kind| *kind as u32 == word(0))?;
        let is_intact = cfg!(fuzzing) || crc32fast::hash(&bytes[..20]) == word(5);
        let [number, n_bytes, n_packed, sum] = [1, 2, 3, 4].map(word);
        let is_possible = n_bytes as usize <= MAX_BYTES && n_packed <= n_bytes;
        (is_intact && is_possible).then_some(BlockHead { kind, number, n_bytes, n_packed, sum })
    }

    /// Returns what a block had before it was compressed; `None` if its bytes are damaged.
    pub(super) fn unpacked(&self, packed: Vec<u8>) -> Option<Vec<u8>> {
        if !cfg!(fuzzing) && crc32fast::hash(&packed) != self.sum {
            return None;
        }
        if self.n_packed == self.n_bytes {
            return Some(packed);
        }
        let mut bytes = vec![0; self.n_bytes as usize];
        let n_bytes = decompress_into(&packed, &mut bytes).ok()?;
        (n_bytes == bytes.len()).then_some(bytes)
    }
}
