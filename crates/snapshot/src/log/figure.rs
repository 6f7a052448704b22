//! Finds the figures of messages: sizes, and the words around a size that show its meaning.

use std::sync::LazyLock;

use regex::Regex;

/// The meaning of a size in a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Figure {
    Requested,
    Capacity,
    Free,
    Process,
    Limit,
    Allocated,
    PrivatePools,
    Unallocated,
    /// Everything that the allocator holds, allocated or not.
    Reserved,
    /// What is held outside the allocator.
    Other,
    /// A known size that is not used here.
    Skipped,
}

use Figure::{
    Allocated, Capacity, Free, Limit, Other, PrivatePools, Process, Requested, Reserved, Skipped, Unallocated,
};

/// The words before and after a size, and its meaning. The first match counts.
const PHRASES: &[(&str, &str, Figure)] = &[
    // PyTorch 2.1 and later; 2.1 has the misspelling.
    ("Tried to allocate ", "", Requested),
    ("total capacity of ", "", Capacity),
    ("total capacty of ", "", Capacity),
    ("of which ", " is free", Free),
    ("this process has ", " memory in use", Process),
    ("max allowed: ", "", Limit),
    ("", " allowed;", Limit),
    ("Of the allocated memory ", " is allocated by PyTorch", Allocated),
    ("with ", " allocated in private pools", PrivatePools),
    ("", " is reserved by PyTorch but unallocated", Unallocated),
    // PyTorch 2.0 and earlier, and torch_npu.
    ("", " total capacity;", Capacity),
    ("", " already allocated;", Allocated),
    ("", " current active;", Skipped),
    ("", " free;", Free),
    ("", " reserved in total by PyTorch", Reserved),
    // MPS.
    ("MPS allocated: ", "", Allocated),
    ("other allocations: ", "", Other),
    // memreel.
    ("needs a segment of ", " on device", Requested),
    ("out of memory: ", " needs a segment", Skipped),
    ("it has ", " in all", Capacity),
    ("in all, ", " free", Free),
    ("may hold ", "", Limit),
    ("", " is allocated,", Allocated),
    ("", " is reserved but unallocated", Unallocated),
    // memreel, as earlier builds print it.
    ("need a segment of ", " on device", Requested),
    ("out of memory: ", " need a segment", Skipped),
    ("", " are allocated,", Allocated),
    ("", " are reserved but unallocated", Unallocated),
    ("unallocated (", " of the allocated in private pools", PrivatePools),
    // XLA.
    ("trying to allocate ", "", Requested),
    ("Out of memory allocating ", "", Requested),
    ("request for ", "", Requested),
    ("Attempting to allocate ", "", Requested),
    ("Attempting to reserve ", "", Requested),
    ("There are ", " free", Free),
    ("free, ", " reserved", Skipped),
    ("and ", " reservable", Skipped),
    ("Used ", " of ", Requested),
    (" of ", " hbm", Limit),
    ("capacity by ", "", Skipped),
    // CuPy.
    ("out of memory to allocate ", "", Requested),
    ("allocated so far: ", "", Allocated),
    ("limit set to: ", "", Limit),
    ("limit set to ", "", Limit),
    ("(total ", "", Allocated),
    // ggml.
    ("allocating ", " on device", Requested),
];

/// A size that was found in a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Size {
    pub(super) bytes: u64,
    /// Half of its last digit.
    pub(super) rounding_bytes: u64,
    pub(super) start: usize,
    pub(super) end: usize,
}

static SIZE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"([0-9][0-9,]*(?:\.[0-9]+)?) ?(bytes|[KMGT]i?B|[KMGT]|B)\b").expect("a constant")
});

/// Returns the sizes in a text. All these programs count in units of 1024, even those that print `GB`.
pub(super) fn sizes(text: &str) -> impl Iterator<Item = Size> {
    SIZE.captures_iter(text).filter_map(|found| {
        let (whole, number, unit) = (found.get(0)?, found.get(1)?.as_str().replace(',', ""), &found[2]);
        let unit: u64 = match unit.as_bytes()[0] {
            b'K' => 1 << 10,
            b'M' => 1 << 20,
            b'G' => 1 << 30,
            b'T' => 1 << 40,
            _ => 1,
        };
        let n_decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len().min(9));
        let rounding_bytes = match unit {
            1 => 0,
            _ => unit / (2 * 10_u64.pow(u32::try_from(n_decimals).unwrap_or(0))),
        };
        Some(Size { bytes: scaled(&number, unit)?, rounding_bytes, start: whole.start(), end: whole.end() })
    })
}

/// Returns a number of units in bytes; `None` if 64 bits are too few.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit);
    }
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let bytes = number.parse::<f64>().map(|number| (number * unit as f64).round() as u64);
    bytes.ok().filter(|bytes| *bytes < u64::MAX)
}

/// Returns the meaning of a size, from the words around it; `None` if they are not known.
pub(super) fn figure(text: &str, size: &Size) -> Option<Figure> {
    let (before, after) = (&text[..size.start], &text[size.end..]);
    let fits = |(words, then, _): &&(&str, &str, Figure)| before.ends_with(words) && after.starts_with(then);
    PHRASES.iter().find(fits).map(|(_, _, figure)| *figure)
}

/// Words that show the meaning of a size next to them, in the order in which they are tried: `unallocated` contains
/// `allocated`.
const LIKELY: &[(&str, Figure)] = &[
    ("private pool", PrivatePools),
    ("unallocated", Unallocated),
    ("cached", Unallocated),
    ("reserved", Reserved),
    ("allowed", Limit),
    ("limit", Limit),
    ("to allocate", Requested),
    ("requested", Requested),
    ("allocated", Allocated),
    ("this process", Process),
    ("free", Free),
    ("capacity", Capacity),
    ("total", Capacity),
];

/// Returns the probable meaning of a size, from the words in its part of the sentence, for a message of unknown form.
pub(super) fn likely_figure(text: &str, size: &Size) -> Option<Figure> {
    const ENDS: [char; 7] = ['.', ',', ';', '(', ')', '[', ']'];
    let before = &text[..size.start];
    // The point of a number ends nothing, but what is before the number is another part.
    let before = &before[before.rfind(ENDS).map_or(0, |at| at + 1)..];
    let after = &text[size.end..];
    let after = &after[..after.find(ENDS).unwrap_or(after.len())];
    let has = |part: &str, words: &str| part.to_ascii_lowercase().contains(words);
    let of = |part: &str| LIKELY.iter().find(|(words, _)| has(part, words)).map(|(_, figure)| *figure);
    // Another size after it has the words that follow.
    let after = sizes(after).next().map_or(after, |next| &after[..next.start]);
    match (of(before), of(after)) {
        // Of `2.00 GiB free of 8.00 GiB total`, each is followed by its own word.
        (_, Some(figure)) => Some(figure),
        (figure, None) => figure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_every_program_are_read() {
        let bytes = |text: &str| sizes(text).map(|size| size.bytes).collect::<Vec<_>>();
        assert_eq!(
            bytes("12.50 MiB, 0 bytes, 25,600,000 bytes, 1.5G."),
            [13_107_200, 0, 25_600_000, 3 << 29]
        );
        assert_eq!(bytes("v2.5B7 at 12:30, 99999999999999999999 GiB, 1e3 B"), [3]);
        let size = sizes("9.68 GiB").next().unwrap();
        assert_eq!(size.rounding_bytes, (1 << 30) / 200);
    }
}
