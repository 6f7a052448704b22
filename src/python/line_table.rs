//! Reads the line tables of CPython's code objects, which map instructions to lines.
//!
//! `tests/python/line_tables.py` writes tables of real interpreters for the tests.
#![forbid(unsafe_code)]

/// How a table is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    /// 3.9: pairs of bytes, the steps in the code and in the lines.
    Lnotab,
    /// 3.10: pairs of bytes, the first of which is the length of the range.
    Ranges,
    /// 3.11 and later: entries of one or more bytes.
    Locations,
}

impl Format {
    /// Returns the format of a minor version of CPython 3.
    fn of_version(minor: u32) -> Format {
        match minor {
            ..=9 => Format::Lnotab,
            10 => Format::Ranges,
            11.. => Format::Locations,
        }
    }
}

/// Returns the line of the instruction at an offset in bytes; 0 if it has none. A negative offset is before the first
/// instruction.
pub(super) fn line_at(minor: u32, table: &[u8], first_line: u32, offset: i64) -> u32 {
    if offset < 0 {
        return first_line;
    }
    let first = i64::from(first_line);
    let line = match Format::of_version(minor) {
        Format::Lnotab => Some(in_lnotab(table, first, offset)),
        Format::Ranges => in_ranges(table, first, offset),
        Format::Locations => in_locations(table, first, offset),
    };
    line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0)
}

fn in_lnotab(table: &[u8], first: i64, offset: i64) -> i64 {
    let (mut at, mut line) = (0, first);
    for pair in table.chunks_exact(2) {
        at += i64::from(pair[0]);
        if at > offset {
            break;
        }
        line += i64::from(pair[1].cast_signed());
    }
    line
}

fn in_ranges(table: &[u8], first: i64, offset: i64) -> Option<i64> {
    let (mut end, mut line) = (0, first);
    for pair in table.chunks_exact(2) {
        end += i64::from(pair[0]);
        let delta = pair[1].cast_signed();
        let has_line = delta != i8::MIN;
        if has_line {
            line += i64::from(delta);
        }
        if end > offset {
            return has_line.then_some(line);
        }
    }
    None
}

fn in_locations(table: &[u8], first: i64, offset: i64) -> Option<i64> {
    let (mut rest, mut end, mut line) = (table, 0, first);
    while let Some((start, after)) = rest.split_first() {
        let kind = start >> 3 & 15;
        end += 2 * (i64::from(start & 7) + 1);
        line += match kind {
            13 | 14 => signed_varint(after),
            10..=12 => i64::from(kind) - 10,
            _ => 0,
        };
        if end > offset {
            return (kind != 15).then_some(line);
        }
        // Only the first byte of an entry has the highest bit.
        let n = after.iter().position(|byte| byte & 0x80 != 0).unwrap_or(after.len());
        rest = &after[n..];
    }
    None
}

/// Returns the number at the start of these bytes, with 6 bits in each; the lowest bit is the sign.
fn signed_varint(bytes: &[u8]) -> i64 {
    let mut number = 0_u64;
    for (i, byte) in bytes.iter().take(6).enumerate() {
        number |= u64::from(byte & 0x3f) << (6 * i);
        if byte & 0x40 == 0 {
            break;
        }
    }
    let size = (number >> 1).cast_signed();
    if number & 1 != 0 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line has a version, the first line, the table in hexadecimal, and `from-to:line` for each range.
    const GOLDEN: &str = include_str!("line_tables.txt");

    #[test]
    fn tables_of_real_interpreters_give_the_lines_that_they_give() {
        let mut versions = Vec::new();
        for golden in GOLDEN.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = golden.split(' ').collect();
            let minor: u32 = words[0].strip_prefix("3.").unwrap().parse().unwrap();
            let first_line = words[1].parse().unwrap();
            let table: Vec<u8> = (0..words[2].len())
                .step_by(2)
                .map(|i| u8::from_str_radix(&words[2][i..i + 2], 16).unwrap())
                .collect();
            assert!(words.len() > 3, "{golden}");
            for range in &words[3..] {
                let (range, line) = range.split_once(':').unwrap();
                let (from, to) = range.split_once('-').unwrap();
                for offset in (from.parse::<i64>().unwrap()..to.parse().unwrap()).step_by(2) {
                    let found = line_at(minor, &table, first_line, offset);
                    assert_eq!(found, line.parse::<u32>().unwrap(), "{golden}: offset {offset}");
                }
            }
            assert_eq!(line_at(minor, &table, first_line, -1), first_line);
            versions.push(minor);
        }
        versions.dedup();
        assert_eq!(versions, [9, 10, 11, 12, 13, 14, 15]);
    }

    #[test]
    fn any_bytes_are_a_table() {
        let mut state = 7_u64;
        for _ in 0..2000 {
            let bytes: Vec<u8> = (0..40)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 56) as u8
                })
                .collect();
            for minor in 9..=15 {
                for offset in [-1, 0, 2, 30, 100_000] {
                    line_at(minor, &bytes, u32::MAX, offset);
                }
            }
        }
    }
}
