//! How the segments are filled, page by page, counted as PyTorch's tool counts (snapshot-format.md 4.2).

use super::state::DeviceHistory;
use crate::{
    event::{Address, DeviceId, StreamId},
    inventory::BlockState,
    snapshot::{Segment, Snapshot},
};

/// The size of a page: one letter of [`SegmentMap::pages`], in bytes.
pub const PAGE_BYTES: u64 = 20 << 20;

/// Maps of more pages are not drawn: 20 TiB, which no device has and a hostile file may claim.
const MOST_PAGES: u64 = 1 << 20;

/// The segments of a snapshot, and their sums.
///
/// Sums are wider than sizes, and signed, because a broken file may ask for
/// more than its blocks hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentStats {
    /// Segments of at least a page, by size and then by the bytes in use.
    pub segments: Vec<SegmentMap>,
    /// How many segments there are, the small ones included.
    pub n_segments: usize,
    /// Bytes held from the device.
    pub reserved_bytes: i128,
    /// Bytes asked for by blocks that the program holds.
    pub allocated_bytes: i128,
    /// What is free.
    pub free: FreeBytes,
}

/// FreeBytes bytes, of two kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeBytes {
    /// In blocks that the program does not hold, those that wait for a stream included.
    pub external_bytes: i128,
    /// Within blocks that the program holds, because sizes are rounded.
    pub internal_bytes: i128,
}

impl FreeBytes {
    /// Both kinds.
    #[must_use]
    pub fn bytes(self) -> i128 {
        self.external_bytes + self.internal_bytes
    }

    /// Percent of the free bytes that rounding lost; `None` where nothing is free.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn internal_percent(self) -> Option<f64> {
        (self.bytes() != 0).then(|| self.internal_bytes as f64 / self.bytes() as f64 * 100.0)
    }
}

/// A segment, drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentMap {
    /// Where it begins.
    pub address: Address,
    /// Its size.
    pub bytes: u64,
    /// The stream it serves.
    pub stream: StreamId,
    /// What is free in it.
    pub free: FreeBytes,
    /// A letter a page: `' '` free, `a` to `z` one block, `0` to `9` several blocks that fill so
    /// many tenths, `*` several that fill it.
    pub pages: String,
}

/// Counts the segments of one device, or of all.
///
/// ```
/// # let reel = memreel::Reel::builder().build()?;
/// let _block = reel.alloc(30 << 20)?;
/// let stats = memreel::analysis::stats(&reel.snapshot(), None);
/// assert_eq!(stats.segments[0].pages, "aa");
/// # Ok::<(), memreel::Error>(())
/// ```
#[must_use]
pub fn stats(snapshot: &Snapshot, device: Option<DeviceId>) -> SegmentStats {
    let is_asked = |segment: &&Segment| device.is_none_or(|device| segment.device == device);
    let mut segments: Vec<&Segment> = snapshot.segments.iter().filter(is_asked).collect();
    segments.sort_by_cached_key(|segment| (segment.total_size, held_bytes(segment)));
    let mut stats = SegmentStats { n_segments: segments.len(), ..SegmentStats::default() };
    for segment in segments {
        let map = map(segment);
        stats.reserved_bytes += i128::from(segment.total_size);
        stats.allocated_bytes += map.allocated_bytes;
        stats.free.external_bytes += map.free.external_bytes;
        stats.free.internal_bytes += map.free.internal_bytes;
        if segment.total_size >= PAGE_BYTES {
            stats.segments.push(SegmentMap {
                address: segment.address,
                bytes: segment.total_size,
                stream: segment.stream,
                free: map.free,
                pages: map.pages(segment.total_size),
            });
        }
    }
    stats
}

impl DeviceHistory<'_> {
    /// Counts the device's segments, as [`stats`] does.
    #[must_use]
    pub fn stats(&self) -> SegmentStats {
        stats(self.snapshot(), Some(self.device()))
    }
}

/// The bytes of blocks that the program holds, rounding included.
fn held_bytes(segment: &Segment) -> u128 {
    let held = segment.blocks.iter().filter(|block| block.state == Some(BlockState::ActiveAllocated));
    held.map(|block| u128::from(block.size)).sum()
}

/// The ranges of a segment that the program asked for.
#[derive(Default)]
struct Map {
    allocated_bytes: i128,
    free: FreeBytes,
    /// Beginning and end, in bytes from the segment's beginning; the end stays within the block.
    ranges: Vec<(u64, u64)>,
}

fn map(segment: &Segment) -> Map {
    let (mut map, mut offset) = (Map::default(), 0_u64);
    for block in &segment.blocks {
        let next = offset.saturating_add(block.size);
        if block.state == Some(BlockState::ActiveAllocated) {
            let requested = block.requested_size;
            map.allocated_bytes += i128::from(requested);
            map.free.internal_bytes += i128::from(block.size) - i128::from(requested);
            map.ranges.push((offset, offset.saturating_add(requested).min(next)));
        } else {
            map.free.external_bytes += i128::from(block.size);
        }
        offset = next;
    }
    map
}

impl Map {
    /// Shares of a page add up as doubles in the order of the blocks, because the last digit shows.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn pages(&self, total_bytes: u64) -> String {
        const DIGITS: &[u8; 11] = b"0123456789*";
        let n_pages = total_bytes.div_ceil(PAGE_BYTES);
        if n_pages > MOST_PAGES {
            return String::new();
        }
        let mut pages = vec![b' '; n_pages as usize];
        let mut filled = vec![0.0_f64; pages.len()];
        for ((start, end), letter) in self.ranges.iter().zip((b'a'..=b'z').cycle()) {
            let first = start / PAGE_BYTES;
            // A range without bytes marks the page it is in, unless it is at its beginning.
            let past = if *end == 0 { 0 } else { (end - 1) / PAGE_BYTES + 1 };
            for page in first..past.min(n_pages) {
                let from = (*start).max(page * PAGE_BYTES);
                let to = (*end).min((page + 1) * PAGE_BYTES);
                let page = page as usize;
                filled[page] += to.saturating_sub(from) as f64 / PAGE_BYTES as f64;
                let digit = DIGITS[((filled[page] * 10.0) as usize).min(10)];
                pages[page] = if pages[page] == b' ' { letter } else { digit };
            }
        }
        String::from_utf8(pages).unwrap_or_default()
    }
}
