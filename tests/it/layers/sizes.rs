//! The sizes of PyTorch's segments are in `crates/snapshot/src/words/torch.rs`, and no other file spells them again.
#![forbid(unsafe_code)]

use super::{PACKAGES, files_of};

#[test]
fn sizes_of_segments_are_spelt_once() {
    let mut again = Vec::new();
    let rooms = PACKAGES.iter().flat_map(|(src, rooms)| rooms.iter().map(move |(room, _)| (src, room)));
    // A device has an alignment of its own.
    for (src, room) in rooms.filter(|(_, room)| **room != "device") {
        for (path, text) in files_of(src, room) {
            // Unit tests and samples have numbers of their own.
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let lines = code.lines().map(str::trim).filter(|line| !line.starts_with("//"));
            let spelt = |line: &&str| line.contains(" 2 << 20") || line.contains(" 20 << 20");
            let may = ["words/torch.rs", "samples.rs"].iter().any(|end| path.ends_with(end));
            again.extend(lines.filter(|line| !may && spelt(line)).map(|line| format!("{path}: {line}")));
        }
    }
    assert!(again.is_empty(), "name a size of words/torch.rs: {again:#?}");
}
