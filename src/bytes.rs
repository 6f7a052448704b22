//! A size as people read it.
#![forbid(unsafe_code)]

use std::fmt;

/// Prints a size with two decimals, in the largest unit of which it is one or more after rounding: `1.50 GiB`.
///
/// ```
/// use memreel::analysis::Bytes;
///
/// assert_eq!(Bytes(3 << 29).to_string(), "1.50 GiB");
/// assert_eq!(Bytes(1000).to_string(), "1000 B");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

const UNITS: [(&str, u64); 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[allow(clippy::cast_precision_loss)]
        let of = |unit: u64| self.0 as f64 / unit as f64;
        // In the unit below it would be printed as 1024.00.
        let rounds_up = |unit: u64| unit > 1024 && of(unit / 1024) >= 1023.995;
        match UNITS.into_iter().rev().find(|(_, unit)| self.0 >= *unit || rounds_up(*unit)) {
            Some((name, unit)) => write!(f, "{:.2} {name}", of(unit)),
            None => write!(f, "{} B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_printed() {
        let printed = [0, 1023, 1024, 3 << 29].map(|bytes| Bytes(bytes).to_string());
        assert_eq!(printed, ["0 B", "1023 B", "1.00 KiB", "1.50 GiB"]);
        // What rounds to 1024.00 is one of the next unit.
        let mib = 1 << 20;
        let printed = [mib - 6, mib - 5, mib, 1024 * mib - 1, u64::MAX].map(|bytes| Bytes(bytes).to_string());
        assert_eq!(printed, ["1023.99 KiB", "1.00 MiB", "1.00 MiB", "1.00 GiB", "16777216.00 TiB"]);
    }
}
