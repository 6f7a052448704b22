//! How the segments are filled, page by page, as counted by PyTorch's tool (`docs/snapshot-format.md` 4.2).

use serde::{Serialize, Serializer};

use crate::{
    analysis::DeviceHistory,
    model::{Segment, Snapshot},
    words::{Address, BlockState, DeviceId, StreamId, torch::LARGE_SEGMENT_BYTES},
};

/// The size of a page in bytes. Each page is one letter of [`SegmentMap::pages`].
pub const PAGE_BYTES: u64 = LARGE_SEGMENT_BYTES;

/// The most pages that are drawn, of all segments together: 20 TiB, which only a hostile file claims.
const MOST_PAGES: u64 = 1 << 20;

/// The segments of a snapshot, and their sums.
///
/// Sums are wider than sizes and signed, because in a broken file the requested bytes may exceed the bytes
/// of the blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SegmentStats {
    /// The number of segments, including small ones.
    pub n_segments: usize,
    /// The bytes that are held from the device.
    #[serde(serialize_with = "in_64_bits")]
    pub reserved_bytes: i128,
    /// The requested bytes of the blocks that the program holds.
    #[serde(serialize_with = "in_64_bits")]
    pub allocated_bytes: i128,
    /// The free bytes.
    #[serde(rename = "free_bytes")]
    pub free: FreeBytes,
    /// The size of a page in bytes, [`PAGE_BYTES`].
    pub page_bytes: u64,
    /// Segments of at least a page, by size and then by the bytes in use.
    pub segments: Vec<SegmentMap>,
    /// The number of these that are not drawn: together with earlier ones they would have more than 2^20 pages (20
    /// TiB).
    #[serde(skip)]
    pub n_not_drawn: usize,
}

/// Free bytes, of two kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FreeBytes {
    /// Bytes in blocks that are not allocated, including pending ones.
    #[serde(rename = "external", serialize_with = "in_64_bits")]
    pub external_bytes: i128,
    /// Bytes lost within allocated blocks, because sizes are rounded.
    #[serde(rename = "internal", serialize_with = "in_64_bits")]
    pub internal_bytes: i128,
}

/// Serialises a sum, or null if it does not fit in 64 bits, as in a broken file.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn in_64_bits<S: Serializer>(bytes: &i128, serializer: S) -> Result<S::Ok, S::Error> {
    i64::try_from(*bytes).ok().serialize(serializer)
}

impl FreeBytes {
    /// Returns the bytes of both kinds.
    #[must_use]
    pub fn bytes(self) -> i128 {
        self.external_bytes + self.internal_bytes
    }

    /// Returns the percentage of the free bytes that was lost to rounding; `None` if nothing is free.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn internal_percent(self) -> Option<f64> {
        (self.bytes() != 0).then(|| self.internal_bytes as f64 / self.bytes() as f64 * 100.0)
    }
}

/// A segment, drawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SegmentMap {
    /// Its first address.
    pub address: Address,
    /// Its size in bytes.
    pub bytes: u64,
    /// The stream whose requests use it.
    pub stream: StreamId,
    /// The free bytes in it.
    #[serde(rename = "free_bytes")]
    pub free: FreeBytes,
    /// One letter for each page: `' '` for a free page, `a` to `z` for a page with one block, `0` to `9`
    /// for the tenths that several blocks fill, `*` for a page that several blocks fill. `None` if the segment
    /// is not drawn ([`SegmentStats::n_not_drawn`]).
    pub pages: Option<String>,
}

/// Counts the segments of one device, or of all devices.
///
/// ```
/// # let reel = memreel::Reel::builder().build()?;
/// let _block = reel.alloc(30 << 20)?;
/// let stats = memreel::analysis::stats(&reel.snapshot(), None);
/// assert_eq!(stats.segments[0].pages.as_deref(), Some("aa"));
/// # Ok::<(), memreel::Error>(())
/// ```
#[must_use]
pub fn stats(snapshot: &Snapshot, device: Option<DeviceId>) -> SegmentStats {
    let mut segments: Vec<&Segment> = snapshot.segments_of(device).collect();
    segments.sort_by_cached_key(|segment| (segment.total_size, held_bytes(segment)));
    let mut stats =
        SegmentStats { n_segments: segments.len(), page_bytes: PAGE_BYTES, ..SegmentStats::default() };
    let mut n_left = MOST_PAGES;
    for segment in segments {
        let map = map(segment);
        let n_pages = segment.total_size.div_ceil(PAGE_BYTES);
        stats.reserved_bytes += i128::from(segment.total_size);
        stats.allocated_bytes += map.allocated_bytes;
        stats.free.external_bytes += map.free.external_bytes;
        stats.free.internal_bytes += map.free.internal_bytes;
        if segment.total_size >= PAGE_BYTES {
            let is_drawn = n_pages <= n_left;
            n_left -= if is_drawn { n_pages } else { 0 };
            stats.n_not_drawn += usize::from(!is_drawn);
            stats.segments.push(SegmentMap {
                address: segment.address,
                bytes: segment.total_size,
                stream: segment.stream,
                free: map.free,
                pages: is_drawn.then(|| map.pages(n_pages)),
            });
        }
    }
    stats
}

impl DeviceHistory<'_> {
    /// Counts the device's segments. Like [`stats`], for this device.
    #[must_use]
    pub fn stats(&self) -> SegmentStats {
        stats(self.snapshot(), Some(self.device()))
    }
}

/// Returns the bytes of the allocated blocks, including rounding.
fn held_bytes(segment: &Segment) -> u128 {
    let held = segment.blocks.iter().filter(|block| block.state == Some(BlockState::ActiveAllocated));
    held.map(|block| u128::from(block.size)).sum()
}

/// The ranges of a segment that the program requested.
#[derive(Default)]
struct Map {
    allocated_bytes: i128,
    free: FreeBytes,
    /// The start and the end of each range in bytes from the segment's start. The end is within the block.
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
    /// Adds the shares of a page as doubles and in the order of the blocks, because rounding decides the
    /// digit.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn pages(&self, n_pages: u64) -> String {
        const DIGITS: &[u8; 11] = b"0123456789*";
        let mut pages = vec![b' '; n_pages as usize];
        let mut filled = vec![0.0_f64; pages.len()];
        for ((start, end), letter) in self.ranges.iter().zip((b'a'..=b'z').cycle()) {
            let first = start / PAGE_BYTES;
            // An empty range marks the page that it is in, unless it is at the start of the page.
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
