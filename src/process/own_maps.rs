//! The recorder's own mappings: a table of ranges, which a reader of the process's memory attributes to the recorder,
//! even from another process.
//!
//! The kernel reports a program's mapping and the recorder's in the same way.
#![forbid(unsafe_code)]

use std::{
    fs::File,
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

/// The most ranges. Further ones are not told apart.
const N_RANGES: usize = 4096;

/// The ranges: the start of each, 0 if the entry is free, and its size in bytes.
#[repr(C)]
struct Table([[AtomicU64; 2]; N_RANGES]);

static TABLE: Table = Table([const { [const { AtomicU64::new(0) }; 2] }; N_RANGES]);

/// Adds a range that was mapped.
pub(super) fn add(start: usize, n_bytes: usize) {
    for [place, bytes] in &TABLE.0 {
        // Relaxed: a reader needs only the numbers, and nothing else has to agree with them.
        if place.load(Ordering::Relaxed) == 0
            && place.compare_exchange(0, start as u64, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            bytes.store(n_bytes as u64, Ordering::Relaxed);
            return;
        }
    }
}

/// Removes a range, before it is unmapped.
pub(super) fn remove(start: usize) {
    let is_it = |[place, _]: &&[AtomicU64; 2]| place.load(Ordering::Relaxed) == start as u64;
    if let Some([place, bytes]) = TABLE.0.iter().find(is_it) {
        bytes.store(0, Ordering::Relaxed);
        place.store(0, Ordering::Relaxed);
    }
}

/// Returns the address of the table, for [`ranges_in`].
pub(crate) fn address() -> u64 {
    std::ptr::from_ref(&TABLE).addr() as u64
}

/// Returns the ranges of this process, by address; adjacent ones are merged.
pub(crate) fn ranges() -> Vec<Range<u64>> {
    joined(TABLE.0.iter().map(|range| range.each_ref().map(|word| word.load(Ordering::Relaxed))))
}

/// Returns the ranges of a process with this folder in `/proc` and the table at this address; none if it cannot be
/// read.
pub(crate) fn ranges_in(process: &Path, address: u64) -> Vec<Range<u64>> {
    let mut bytes = vec![0; size_of::<Table>()];
    let read = File::open(process.join("mem")).and_then(|memory| memory.read_exact_at(&mut bytes, address));
    if address == 0 || read.is_err() {
        return Vec::new();
    }
    let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
    joined(bytes.chunks_exact(16).map(|range| [word(range), word(&range[8..])]))
}

fn joined(ranges: impl Iterator<Item = [u64; 2]>) -> Vec<Range<u64>> {
    let range = |[start, n_bytes]: [u64; 2]| start..start.saturating_add(n_bytes);
    let mut all: Vec<Range<u64>> = ranges.filter(|[_, n_bytes]| *n_bytes > 0).map(range).collect();
    all.sort_unstable_by_key(|range| range.start);
    all.dedup_by(|next, before| {
        let follows = next.start <= before.end;
        if follows {
            before.end = before.end.max(next.end);
        }
        follows
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_side_by_side_are_one_and_another_process_reads_them() {
        const AT: usize = 0x7fff_0000_0000;
        (0..3).for_each(|nth| add(AT + nth * 4096, 4096));
        add(AT + 0x10_000, 4096);
        remove(AT + 0x10_000);
        let expected = AT as u64..AT as u64 + 3 * 4096;
        assert!(ranges().contains(&expected), "{:?}", ranges());
        assert!(ranges_in(Path::new("/proc/self"), address()).contains(&expected));
        assert!(ranges_in(Path::new("/proc/self"), 8).is_empty());
        (0..3).for_each(|nth| remove(AT + nth * 4096));
        assert!(!ranges().contains(&expected));
    }
}
