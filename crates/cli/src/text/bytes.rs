//! Parses and prints sizes for users.
//!
//! Text that copies PyTorch's tool has its own format of sizes, `pytorch::TorchSize`; everything else
//! that the program prints uses [`Bytes`].

#![forbid(unsafe_code)]

pub(crate) use memreel_snapshot::analysis::Bytes;

const UNITS: [(&str, u64); 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

/// Reads a size in bytes: `24GiB`, `1.5 GiB`, `512M` or `1000000` with units of 1024, `24GB` with units of 1000.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let refuse =
        || format!("{text:?} is not a size; use for example 24GiB, 512MiB, 1.5GiB or a number of bytes");
    Bytes::parse(text).map(|bytes| bytes.0).ok_or_else(refuse)
}

/// Like [`parse`], and reads 0 too.
pub(crate) fn parse_or_zero(text: &str) -> Result<u64, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    if number == "0" { Ok(0) } else { parse(text) }
}

/// Returns a size in the form that [`parse`] reads, without rounding.
pub(crate) fn exact(bytes: u64) -> String {
    let whole = UNITS.iter().rev().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    whole.map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
}

/// Returns a difference of sizes.
pub(crate) fn signed(bytes: i128) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    format!("{sign}{}", Bytes(u64::try_from(bytes.unsigned_abs()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_sizes_are_read_back() {
        for (bytes, text) in [(2_145_386_496, "2046MiB"), (3 << 30, "3GiB"), (1500, "1500"), (1536, "1536")] {
            assert_eq!((exact(bytes).as_str(), parse(text)), (text, Ok(bytes)));
        }
    }
}
