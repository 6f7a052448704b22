//! Sizes as users write and read them.
//!
//! Text that copies PyTorch's tool has its own format of sizes, `pytorch::TorchSize`; everything else
//! that the program prints uses [`Bytes`].

#![forbid(unsafe_code)]

pub(crate) use memreel::analysis::Bytes;

const UNITS: [(&str, u64); 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

/// The accepted units, in lower case.
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

/// Reads a size in bytes: `24GiB`, `1.5 GiB`, `512M` or `1000000` with units of 1024, `24GB` with units of 1000.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let refuse =
        || format!("{text:?} is not a size; use for example 24GiB, 512MiB, 1.5GiB or a number of bytes");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..digits], text[digits..].trim().to_ascii_lowercase());
    let (_, factor) = SPELLINGS.into_iter().find(|(spelling, _)| *spelling == unit).ok_or_else(refuse)?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).filter(|bytes| *bytes > 0).ok_or_else(refuse);
    }
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let bytes = number.parse::<f64>().map(|number| (number * factor as f64) as u64);
    bytes.ok().filter(|bytes| (1..u64::MAX).contains(bytes)).ok_or_else(refuse)
}

/// Like [`parse`], and reads 0 too.
pub(crate) fn parse_or_zero(text: &str) -> Result<u64, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    if number == "0" { Ok(0) } else { parse(text) }
}

/// Returns a size as [`parse`] reads it, without rounding.
pub(crate) fn exact(bytes: u64) -> String {
    let whole = UNITS.iter().rev().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    whole.map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(parse(text).ok(), bytes, "{text}");
        }
    }

    #[test]
    fn exact_sizes_are_read_back() {
        for (bytes, text) in [(2_145_386_496, "2046MiB"), (3 << 30, "3GiB"), (1500, "1500"), (1536, "1536")] {
            assert_eq!((exact(bytes).as_str(), parse(text)), (text, Ok(bytes)));
        }
    }
}
