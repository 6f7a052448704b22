//! Prints the statistics as PyTorch's table (`docs/caching-allocator.md` 7.5).
#![forbid(unsafe_code)]

use std::fmt;

use super::stats::{MemoryStats, PoolStat, Stat};
use memreel_snapshot::words::DeviceId;

/// The width between the bars.
const WIDTH: usize = 75;

/// A table of an allocator's statistics, as PyTorch's `memory_summary()`
/// returns it. Print it with `{}`.
#[derive(Clone, Debug)]
pub struct MemorySummary {
    device: DeviceId,
    stats: MemoryStats,
    is_abbreviated: bool,
}

/// The unit of the numbers of a group.
#[derive(Clone, Copy)]
enum Unit {
    Bytes,
    Count,
}

impl MemorySummary {
    pub(super) fn new(device: DeviceId, stats: MemoryStats) -> MemorySummary {
        MemorySummary { device, stats, is_abbreviated: false }
    }

    /// Omits the rows of the small and the large pool.
    #[must_use]
    pub fn abbreviated(self) -> MemorySummary {
        MemorySummary { is_abbreviated: true, ..self }
    }

    fn groups(&self) -> [(&'static str, Unit, PoolStat); 9] {
        let stats = &self.stats;
        [
            ("Allocated memory", Unit::Bytes, stats.allocated_bytes),
            ("Active memory", Unit::Bytes, stats.active_bytes),
            ("Requested memory", Unit::Bytes, stats.requested_bytes),
            ("GPU reserved memory", Unit::Bytes, stats.reserved_bytes),
            ("Non-releasable memory", Unit::Bytes, stats.inactive_split_bytes),
            ("Allocations", Unit::Count, stats.allocation),
            ("Active allocs", Unit::Count, stats.active),
            ("GPU reserved segments", Unit::Count, stats.segment),
            ("Non-releasable allocs", Unit::Count, stats.inactive_split),
        ]
    }
}

impl fmt::Display for MemorySummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (double, single) = ("=".repeat(WIDTH), "-".repeat(WIDTH));
        let title = format!("{:16}PyTorch CUDA memory summary, device ID {:<17}", "", self.device.0);
        let counts = format!(
            "            CUDA OOMs: {:<12} |      cudaMalloc retries: {:<8}",
            self.stats.num_ooms, self.stats.num_alloc_retries
        );
        let head = "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ";
        for line in [&double, &title, &single, &counts, &double, head] {
            writeln!(f, "|{line:<WIDTH$}|")?;
        }
        for (label, unit, stat) in self.groups() {
            writeln!(f, "|{single}|")?;
            row(f, label, unit, &stat.all, &stat.all)?;
            if !self.is_abbreviated {
                row(f, "      from large pool", unit, &stat.large_pool, &stat.all)?;
                row(f, "      from small pool", unit, &stat.small_pool, &stat.all)?;
            }
        }
        let oversize = [
            ("Oversize allocations", self.stats.oversize_allocations),
            ("Oversize GPU segments", self.stats.oversize_segments),
        ];
        for (label, stat) in oversize {
            writeln!(f, "|{single}|")?;
            row(f, label, Unit::Count, &stat, &stat)?;
        }
        writeln!(f, "|{double}|")
    }
}

/// Writes one line. The sum over all pools determines the unit of each column.
fn row(f: &mut fmt::Formatter<'_>, label: &str, unit: Unit, stat: &Stat, all: &Stat) -> fmt::Result {
    let cells = [
        (stat.current, all.current),
        (stat.peak, all.peak),
        (stat.allocated, all.allocated),
        (stat.freed, all.freed),
    ];
    let cells = cells.map(|(number, reference)| cell(unit, number, reference));
    writeln!(f, "| {label:<21} | {} |", cells.join(" | "))
}

fn cell(unit: Unit, number: i64, reference: i64) -> String {
    match unit {
        Unit::Bytes => {
            let (number, name) =
                scale(number, reference, 1024, 768 * 1024, &["B  ", "KiB", "MiB", "GiB", "TiB", "PiB"]);
            format!("{number:>6} {name}")
        }
        Unit::Count => {
            let (number, name) = scale(number, reference, 1000, 750_000, &[" ", "K", "M"]);
            format!("{number:>7} {name} ")
        }
    }
}

/// Divides values until the reference is below the limit, or the units end.
fn scale(
    mut number: i64,
    mut reference: i64,
    by: i64,
    limit: i64,
    names: &[&'static str],
) -> (i64, &'static str) {
    let mut names = names.iter();
    let mut name = names.next().copied().unwrap_or_default();
    while reference >= limit {
        let Some(next) = names.next() else { break };
        (number, reference, name) = (number / by, reference / by, next);
    }
    (number, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_its_bars_and_its_width() {
        let mut stats = MemoryStats::default();
        stats.allocated_bytes.all.change(5 << 30);
        stats.allocation.all.change(1_500_000);
        stats.num_ooms = 3;
        let text = MemorySummary::new(DeviceId(1), stats).to_string();
        assert!(
            text.lines().all(|line| line.chars().count() == WIDTH + 2
                && line.starts_with('|')
                && line.ends_with('|'))
        );
        assert_eq!(text.lines().count(), 6 + 9 * 4 + 2 * 2 + 1);
        assert!(
            text.contains("| Allocated memory      |   5120 MiB |   5120 MiB |   5120 MiB |      0 B   |"),
            "{text}"
        );
        assert!(text.contains("| Allocations           |    1500 K  |"), "{text}");
        assert!(text.contains("CUDA OOMs: 3 "), "{text}");
        let short = MemorySummary::new(DeviceId(0), stats).abbreviated().to_string();
        assert_eq!(short.lines().count(), 6 + 9 * 2 + 2 * 2 + 1);
    }

    #[test]
    fn a_column_keeps_the_unit_of_its_whole() {
        assert_eq!(cell(Unit::Bytes, 1023, 768 * 1024), "     0 KiB");
        assert_eq!(cell(Unit::Bytes, 768 * 1024 - 1, 768 * 1024 - 1), "786431 B  ");
        assert_eq!(cell(Unit::Count, 749_999, 749_999), " 749999   ");
    }
}
