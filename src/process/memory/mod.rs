//! Reads the resident memory of a process from the kernel.
#![forbid(unsafe_code)]

mod areas;
mod arenas;
mod group;
mod holes;
mod known;
mod loaded;
mod maps;

use std::{fs, io, path::Path};

use memreel_snapshot::words::ResidentReport;

pub(crate) use known::Known;

/// The folder of this process.
pub(crate) const OWN: &str = "/proc/self";

/// Returns what the kernel reports now for the process with this folder in `/proc`, without a device and a time.
///
/// # Errors
/// The folder does not exist or cannot be read.
pub(crate) fn look(process: &Path, known: &Known) -> io::Result<ResidentReport> {
    let maps = maps::read(process)?;
    let mut areas = areas::of(&maps, process, known);
    holes::add(&mut areas, process);
    let resident_bytes = maps.iter().map(|map| map.resident_bytes).sum();
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let machine = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    Ok(ResidentReport {
        resident_bytes,
        peak_bytes: kibibytes(&status, "VmHWM:").unwrap_or(0).max(resident_bytes),
        swapped_bytes: maps.iter().map(|map| map.swapped_bytes).sum(),
        machine_bytes: kibibytes(&machine, "MemTotal:").unwrap_or(0),
        group: group::report(process),
        areas,
        ..ResidentReport::default()
    })
}

/// Returns only the resident bytes of a process, which is fast.
///
/// # Errors
/// The errors of [`look`].
pub(crate) fn resident_bytes(process: &Path) -> io::Result<u64> {
    let sizes = fs::read_to_string(process.join("statm"))?;
    let pages = sizes.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    Ok(pages.unwrap_or(0).saturating_mul(rustix::param::page_size() as u64))
}

/// Returns the value of a line such as `VmHWM:   1234 kB`, in bytes.
fn kibibytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;
    use memreel_snapshot::words::AreaKind;

    #[test]
    fn the_areas_add_up_and_a_touched_map_is_resident() {
        let touched = vec![1_u8; 32 << 20];
        let report = look(Path::new(OWN), &Known::default()).unwrap();
        let sum: u64 = report.areas.iter().map(|area| area.resident_bytes).sum();
        assert_eq!(sum, report.resident_bytes);
        assert!(report.peak_bytes >= report.resident_bytes && report.machine_bytes > report.resident_bytes);
        let start = touched.as_ptr().addr() as u64;
        let range = start..start + touched.len() as u64;
        let area = report.areas.iter().find(|area| area.range.contains(&range.start)).unwrap();
        assert!(area.has_blocks(), "{:?}", area.kind);
        assert_eq!(area.resident_of(&range), range.end - range.start);
        assert!(report.areas.iter().any(|area| area.kind == AreaKind::Code && area.name.contains("libc")));
    }

    #[test]
    fn a_map_that_is_touched_in_part_has_holes() {
        let mut sparse: Vec<u8> = Vec::with_capacity(64 << 20);
        let (page, all) = (4096, sparse.spare_capacity_mut());
        for part in 0..8 {
            all[part * (8 << 20) + page].write(1);
        }
        let range = all.as_ptr().addr() as u64..(all.as_ptr().addr() + all.len()) as u64;
        let report = look(Path::new(OWN), &Known::default()).unwrap();
        let area = report.areas.iter().find(|area| area.range.contains(&(range.start + 4096))).unwrap();
        let resident = area.resident_of(&range);
        // Huge pages may make more of it resident than was touched.
        assert!(resident >= 8 * 4096 && resident <= area.resident_bytes, "{resident}");
        assert!(!area.holes.is_empty() || area.huge_bytes > 0);
    }
}
