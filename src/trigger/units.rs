//! Sizes and times as they are written in the variable `MEMREEL`.
#![forbid(unsafe_code)]

use std::time::Duration;

const SIZES: [(&str, u64); 9] = [
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

const TIMES_MS: [(&str, u64); 4] = [("ms", 1), ("s", 1000), ("min", 60_000), ("h", 3_600_000)];

/// Reads a size such as `512MiB`; the result is at least 1.
pub(super) fn size(text: &str) -> Option<u64> {
    scaled(text, &SIZES)
}

/// Reads a time such as `30s`; the result is at least 1 ms.
pub(super) fn time(text: &str) -> Option<Duration> {
    scaled(text, &TIMES_MS).map(Duration::from_millis)
}

/// Reads a whole number with a unit, and returns it in the smallest unit; `None` for 0 and beyond 64 bits.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = text[digits..].trim_start();
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    text[..digits].parse::<u64>().ok()?.checked_mul(*factor).filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_distinguishes_sizes_and_times() {
        for (text, bytes, ms) in [
            ("512MiB", Some(512 << 20), None),
            ("3 GB", Some(3_000_000_000), None),
            ("1B", Some(1), None),
            ("30s", None, Some(30_000)),
            ("1500ms", None, Some(1500)),
            ("2min", None, Some(120_000)),
            ("30", None, None),
            ("0s", None, None),
            ("-1s", None, None),
            ("99999999999TiB", None, None),
            ("1m", None, None),
            ("", None, None),
        ] {
            assert_eq!((size(text), time(text)), (bytes, ms.map(Duration::from_millis)), "{text}");
        }
    }
}
