//! Prints and parses sizes.

use std::{fmt, iter::Sum};

/// Prints a size with two decimals, in the largest unit of which it is one or more after rounding: `1.50 GiB`. A sum of sizes,
/// which a broken file may choose, ends at the largest number.
///
/// ```
/// use memreel::analysis::Bytes;
///
/// assert_eq!(Bytes(3 << 29).to_string(), "1.50 GiB");
/// assert_eq!(Bytes(1000).to_string(), "1000 B");
/// assert_eq!([u64::MAX, 2].into_iter().sum::<Bytes>(), Bytes(u64::MAX));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

impl Sum<u64> for Bytes {
    fn sum<I: Iterator<Item = u64>>(sizes: I) -> Bytes {
        Bytes(sizes.fold(0, u64::saturating_add))
    }
}

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

/// The units that are read, in lower case.
const SPELLINGS: [(&str, u64); 14] = [
    ("", 1),
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

impl Bytes {
    /// Reads a size: `24GiB`, `1.5 GiB`, `512M` or `1000000` with units of 1024, `24GB` with units of 1000. `None` for
    /// 0, for more than 64 bits, and for any other text.
    ///
    /// ```
    /// use memreel_snapshot::words::Bytes;
    ///
    /// assert_eq!(Bytes::parse("1.5GiB"), Some(Bytes(3 << 29)));
    /// assert_eq!(Bytes::parse("30s"), None);
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Bytes> {
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..digits], text[digits..].trim().to_ascii_lowercase());
        let (_, factor) = SPELLINGS.into_iter().find(|(spelling, _)| *spelling == unit)?;
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(factor).filter(|bytes| *bytes > 0).map(Bytes);
        }
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let bytes = number.parse::<f64>().map(|number| (number * factor as f64) as u64);
        bytes.ok().filter(|bytes| (1..u64::MAX).contains(bytes)).map(Bytes)
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

    #[test]
    fn sizes_are_read() {
        let cases: [(&str, Option<u64>); 16] = [
            ("24GiB", Some(24 << 30)),
            ("512MiB", Some(512 << 20)),
            ("1.5GiB", Some(3 << 29)),
            ("1.5 gib", Some(3 << 29)),
            ("2G", Some(2 << 30)),
            ("2g", Some(2 << 30)),
            ("3kib", Some(3072)),
            ("3kB", Some(3000)),
            ("1GB", Some(1_000_000_000)),
            ("1.5mb", Some(1_500_000)),
            ("1000", Some(1000)),
            ("1000B", Some(1000)),
            ("0", None),
            ("-1", None),
            ("24 parsecs", None),
            ("99999999999TiB", None),
        ];
        for (text, bytes) in cases {
            assert_eq!(Bytes::parse(text), bytes.map(Bytes), "{text}");
        }
    }
}
