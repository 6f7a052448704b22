//! The regions of small blocks: 1 MiB each, the first ones 64 KiB, with blocks of one size, in extents of 64 MiB.

use std::{
    ptr::{self, null_mut},
    sync::atomic::{AtomicUsize, Ordering},
};

use super::{
    super::own_maps,
    pages::{WRITABLE, map, map_at, unmap},
};

/// The number of size classes: steps of 16 up to 128, then four per doubling.
pub(super) const N_SIZES: usize = 48;

const EXTENT_BYTES: usize = 64 << 20;
const REGION_BYTES: usize = 1 << 20;

/// The size of the first regions of all sizes up to a quarter of it, which are at the start of the first extent: a short
/// process has a few blocks of many sizes.
const FIRST_REGION_BYTES: usize = 64 << 10;
/// The size of these regions together.
const FIRST_BYTES: usize = 2 * REGION_BYTES;

/// The most extents: 32 GiB of small blocks.
const MOST_EXTENTS: usize = 512;

/// The header of a region. Blocks whose size is a multiple of its length are aligned to that length.
pub(super) const HEADER_BYTES: usize = 128;

/// The extents, which distinguish own blocks from those of another allocator. Stored with release, before a block is
/// handed out.
static EXTENTS: [AtomicUsize; MOST_EXTENTS] = [const { AtomicUsize::new(0) }; MOST_EXTENTS];

/// The bytes that a region keeps when its last block is freed, because small blocks come and go.
const KEPT_BYTES: usize = 64 << 10;

/// A region of blocks of one size.
#[repr(C, align(128))]
struct Region {
    /// The bytes of the region.
    bytes: usize,
    n_live: usize,
    /// The number of bytes that were ever used, where unused blocks start.
    n_used_bytes: usize,
    free: *mut Free,
    /// The next region of this size with room.
    next: *mut Region,
    before: *mut Region,
    is_listed: bool,
}

const _: () = assert!(size_of::<Region>() == HEADER_BYTES);

/// A free block.
struct Free {
    next: *mut Free,
}

/// The state that the lock protects.
pub(super) struct Regions {
    /// Regions with room, by size.
    with_room: [*mut Region; N_SIZES],
    /// Regions without a block, by `next`.
    empty: *mut Region,
    /// The part of the last extent that was never used.
    rest: (usize, usize),
    /// The start of the first regions, and the part of them that was never used.
    first: usize,
    first_rest: (usize, usize),
}

impl Regions {
    pub(super) const fn new() -> Regions {
        Regions {
            with_room: [null_mut(); N_SIZES],
            empty: null_mut(),
            rest: (0, 0),
            first: 0,
            first_rest: (0, 0),
        }
    }

    pub(super) fn take(&mut self, nth: usize, size: usize) -> *mut u8 {
        let mut region = self.with_room[nth];
        if region.is_null() {
            region = self.new_region(nth, size);
            if region.is_null() {
                return null_mut();
            }
        }
        // SAFETY: a region in the list is one of this allocator's, and the lock is this thread's.
        let of = unsafe { &mut *region };
        of.n_live += 1;
        let block = if of.free.is_null() {
            let block = region.cast::<u8>().wrapping_add(of.n_used_bytes);
            of.n_used_bytes += size;
            block
        } else {
            let block = of.free;
            // SAFETY: a free block of this region has the next one.
            of.free = unsafe { (*block).next };
            block.cast()
        };
        if of.free.is_null() && of.n_used_bytes + size > of.bytes {
            self.unlist(region, nth);
        }
        block
    }

    pub(super) fn give(&mut self, block: *mut u8, nth: usize) {
        let is_first = block.addr().wrapping_sub(self.first) < FIRST_BYTES;
        let bytes = if is_first { FIRST_REGION_BYTES } else { REGION_BYTES };
        let region = block.map_addr(|address| address & !(bytes - 1)).cast::<Region>();
        // SAFETY: a block of an extent is in a region, and the lock is this thread's.
        let of = unsafe { &mut *region };
        let free = block.cast::<Free>();
        // SAFETY: the block is free, and a block has room for an address.
        unsafe { free.write(Free { next: of.free }) };
        of.free = free;
        of.n_live -= 1;
        if !of.is_listed {
            self.list(region, nth);
        }
        if of.n_live == 0 {
            if of.n_used_bytes > KEPT_BYTES {
                // SAFETY: no block of the region is used. The first pages, with the header, stay.
                unsafe {
                    let at = region.cast::<u8>().add(KEPT_BYTES);
                    libc::syscall(libc::SYS_madvise, at, REGION_BYTES - KEPT_BYTES, libc::MADV_DONTNEED);
                }
            }
            (of.free, of.n_used_bytes) = (null_mut(), HEADER_BYTES);
            let is_only = of.next.is_null() && of.before.is_null();
            if !is_only && !is_first {
                self.unlist(region, nth);
                of.next = self.empty;
                self.empty = region;
            }
        }
    }

    fn list(&mut self, region: *mut Region, nth: usize) {
        let first = self.with_room[nth];
        // SAFETY: regions of this allocator's, and the lock is this thread's.
        unsafe {
            ((*region).next, (*region).before, (*region).is_listed) = (first, null_mut(), true);
            if let Some(first) = first.as_mut() {
                first.before = region;
            }
        }
        self.with_room[nth] = region;
    }

    fn unlist(&mut self, region: *mut Region, nth: usize) {
        // SAFETY: as above.
        unsafe {
            let (next, before) = ((*region).next, (*region).before);
            match before.as_mut() {
                Some(before) => before.next = next,
                None => self.with_room[nth] = next,
            }
            if let Some(next) = next.as_mut() {
                next.before = before;
            }
            ((*region).next, (*region).before, (*region).is_listed) = (null_mut(), null_mut(), false);
        }
    }

    fn new_region(&mut self, nth: usize, size: usize) -> *mut Region {
        let mut region = self.empty;
        if self.rest.0 == self.rest.1 && region.is_null() && !self.new_extent() {
            return null_mut();
        }
        let mut bytes = REGION_BYTES;
        if self.first_rest.0 < self.first_rest.1 && size <= FIRST_REGION_BYTES / 4 {
            bytes = FIRST_REGION_BYTES;
            region = ptr::with_exposed_provenance_mut(self.first_rest.0);
            self.first_rest.0 += bytes;
        } else if region.is_null() {
            region = self.make_writable(bytes).cast();
            if region.is_null() {
                return null_mut();
            }
        } else {
            // SAFETY: an empty region has the next one.
            self.empty = unsafe { (*region).next };
        }
        let (free, next, before) = (null_mut(), null_mut(), null_mut());
        let new =
            Region { bytes, n_live: 0, n_used_bytes: HEADER_BYTES, free, next, before, is_listed: false };
        // SAFETY: the region is in an extent, and no block of it is used.
        unsafe { region.write(new) };
        self.list(region, nth);
        region
    }

    /// Takes so many bytes of the last extent; null if they cannot be written to.
    fn make_writable(&mut self, bytes: usize) -> *mut u8 {
        let at = ptr::with_exposed_provenance_mut(self.rest.0);
        // A program may have forbidden itself `mprotect`, but not mappings without a file. SAFETY: the pages are of
        // an extent, and nothing has them.
        unsafe {
            if map_at(at, bytes, WRITABLE, libc::MAP_FIXED).is_null() {
                return null_mut();
            }
            libc::syscall(libc::SYS_madvise, at, bytes, libc::MADV_NOHUGEPAGE);
        }
        self.rest.0 += bytes;
        at
    }

    fn new_extent(&mut self) -> bool {
        // Relaxed: only the owner of the lock writes an entry.
        let Some(place) = EXTENTS.iter().find(|place| place.load(Ordering::Relaxed) == 0) else {
            return false;
        };
        let at = map(EXTENT_BYTES + REGION_BYTES, libc::PROT_NONE);
        if at.is_null() {
            return false;
        }
        // Regions are aligned to their length.
        let start = at.addr().next_multiple_of(REGION_BYTES);
        let before = start - at.addr();
        // SAFETY: these pages were just mapped.
        unsafe {
            if before > 0 {
                unmap(at, before);
            }
            unmap(at.wrapping_add(before + EXTENT_BYTES), REGION_BYTES - before);
        }
        own_maps::add(start, EXTENT_BYTES);
        self.rest = (start, start + EXTENT_BYTES);
        place.store(start, Ordering::Release);
        if self.first == 0 && !self.make_writable(FIRST_BYTES).is_null() {
            self.first = start;
            self.first_rest = (start, start + FIRST_BYTES);
        }
        true
    }
}

/// Returns whether a small block belongs to an extent.
pub(super) fn is_own(block: *mut u8) -> bool {
    let extents = EXTENTS.iter().map(|place| place.load(Ordering::Acquire)).take_while(|start| *start != 0);
    extents.into_iter().any(|start| block.addr().wrapping_sub(start) < EXTENT_BYTES)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::alloc::{GlobalAlloc, Layout};

    use super::super::{OwnPages, with_regions};

    #[test]
    fn what_no_block_was_in_cannot_be_written_to() {
        // SAFETY: the layout has bytes, and the block is freed once.
        let last = unsafe {
            let layout = Layout::from_size_align(100, 8).unwrap();
            let block = OwnPages.alloc(layout);
            let (_, end) = with_regions(|regions| regions.rest).unwrap();
            OwnPages.dealloc(block, layout);
            end - 1
        };
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let has = |line: &&str| {
            let (range, _) = line.split_once(' ').unwrap();
            let (start, end) = range.split_once('-').unwrap();
            let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).unwrap());
            (start..end).contains(&last)
        };
        let line = maps.lines().find(has).unwrap();
        assert!(line.contains(" ---p "), "{line}");
    }
}
