//! Finds the pages of an area that are not resident, from `pagemap` in the folder of its process.
#![forbid(unsafe_code)]

use std::{fs::File, ops::Range, os::unix::fs::FileExt, path::Path};

use memreel_snapshot::words::ResidentArea;

/// The most holes in a report; areas beyond it have none.
const MOST_HOLES: usize = 1 << 15;

/// The number of page map entries that are read at a time.
const N_ENTRIES: usize = 4096;

/// Adds the holes of the areas that blocks may be in.
pub(super) fn add(areas: &mut [ResidentArea], process: &Path) {
    let mut n_left = MOST_HOLES;
    for area in areas.iter_mut().filter(|area| area.has_blocks() && !area.range.is_empty()) {
        let holes = of(&area.range, area.resident_bytes, process);
        if holes.len() <= n_left {
            n_left -= holes.len();
            area.holes = holes;
        }
    }
}

/// Returns the parts of a range that are not resident; `resident_bytes` of it are resident.
pub(super) fn of(range: &Range<u64>, resident_bytes: u64, process: &Path) -> Vec<Range<u64>> {
    if resident_bytes >= range.end - range.start {
        return Vec::new();
    }
    if resident_bytes == 0 {
        return vec![range.clone()];
    }
    let page_bytes = rustix::param::page_size() as u64;
    let Ok(file) = File::open(process.join("pagemap")) else { return Vec::new() };
    read(&file, range, page_bytes, &mut vec![0; N_ENTRIES * 8])
}

fn read(file: &File, range: &Range<u64>, page_bytes: u64, entries: &mut [u8]) -> Vec<Range<u64>> {
    let mut holes: Vec<Range<u64>> = Vec::new();
    let (mut page, end) = (range.start / page_bytes, range.end.div_ceil(page_bytes));
    while page < end {
        let n = usize::try_from(end - page).unwrap_or(usize::MAX).min(N_ENTRIES);
        let Ok(n_read) = file.read_at(&mut entries[..n * 8], page * 8) else { return holes };
        if n_read < 8 {
            return holes;
        }
        for entry in entries[..n_read / 8 * 8].chunks_exact(8) {
            // The highest bit of an entry is set for a page in memory; entries are in this machine's byte order.
            let is_there = u64::from_ne_bytes(entry.try_into().unwrap_or([0; 8])) >> 63 != 0;
            let start = page * page_bytes;
            page += 1;
            if is_there {
                continue;
            }
            match holes.last_mut() {
                Some(last) if last.end == start => last.end = page * page_bytes,
                _ => holes.push(start..page * page_bytes),
            }
        }
    }
    holes
}
