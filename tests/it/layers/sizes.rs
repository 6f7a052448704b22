//! The sizes of PyTorch's segments are in `src/torch.rs`, and no other room spells them again.
#![forbid(unsafe_code)]

use super::{ROOMS, files_of};

/// `torch` itself; a device has an alignment of its own, and may not import `torch`.
const MAY: [&str; 2] = ["torch", "device"];

#[test]
fn sizes_of_segments_are_spelt_once() {
    let mut again = Vec::new();
    for (room, _) in ROOMS.iter().filter(|(room, _)| !MAY.contains(room)) {
        for (path, text) in files_of(room) {
            // Unit tests and samples have numbers of their own.
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let lines = code.lines().map(str::trim).filter(|line| !line.starts_with("//"));
            let spelt = |line: &&str| line.contains(" 2 << 20") || line.contains(" 20 << 20");
            let is_sample = path.ends_with("samples.rs");
            again
                .extend(lines.filter(|line| !is_sample && spelt(line)).map(|line| format!("{path}: {line}")));
        }
    }
    assert!(again.is_empty(), "name a size of src/torch.rs: {again:#?}");
}
