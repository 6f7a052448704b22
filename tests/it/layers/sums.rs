//! Sizes come from files that are broken, so where events of a tape become a snapshot their sums end at the largest number:
//! `saturating_add`, or a sum of `Bytes`.
#![forbid(unsafe_code)]

use super::{PACKAGES, files_of};

/// The rooms through which the sizes of a tape go. Rooms that read snapshots have sums of 128 bits.
const ROOMS: [&str; 4] = ["recorder", "collect", "reel", "words"];

#[test]
fn sums_of_bytes_have_an_end() {
    let mut endless = Vec::new();
    let rooms = PACKAGES.iter().flat_map(|(src, rooms)| rooms.iter().map(move |(room, _)| (src, room)));
    for (src, room) in rooms.filter(|(_, room)| ROOMS.contains(room)) {
        for (path, text) in files_of(src, room) {
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let lines = code.lines().map(str::trim).filter(|line| !line.starts_with("//"));
            endless.extend(lines.filter(|line| is_endless(line)).map(|line| format!("{path}: {line}")));
        }
    }
    assert!(endless.is_empty(), "a sum of sizes that may overflow: {endless:#?}");
}

/// Whether a line adds sizes. What is in memory is counted by `n_bytes`.
fn is_endless(line: &str) -> bool {
    let of_sizes = |text: &str| {
        text.rsplit(|c: char| !c.is_alphanumeric() && c != '_')
            .next()
            .is_some_and(|word| word.ends_with("bytes") && !word.ends_with("n_bytes"))
    };
    let is_added = |sign: &str| line.match_indices(sign).any(|(at, _)| of_sizes(&line[..at]));
    let is_sum = [").sum()", ").sum::<u64>()"].iter().any(|sum| is_added(sum));
    is_added(" + ") || is_added(" += ") || is_sum
}

#[test]
fn additions_of_sizes_are_found() {
    for line in [
        "whole.bytes += later.bytes;",
        "earlier.bytes + segment.bytes",
        "map(|s| s.size_bytes).sum()",
        "map(S::active_bytes).sum(),",
    ] {
        assert!(is_endless(line), "{line}");
    }
    for line in ["n_bytes += 1", "bytes.saturating_add(more)", "map(|s| s.size_bytes).sum::<Bytes>().0"] {
        assert!(!is_endless(line), "{line}");
    }
}
