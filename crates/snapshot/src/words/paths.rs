//! Paths of any system: a snapshot of Windows is read on Linux too, so `/` and `\` both separate parts.

use std::borrow::Cow;

/// What separates the parts of a path.
pub const SEPARATORS: [char; 2] = ['/', '\\'];

/// Returns the part of a path after its last separator.
#[must_use]
pub fn base_name(path: &str) -> &str {
    // Bytes, because names of megabytes are searched; in UTF-8 a byte like a separator is one.
    let separator = path.bytes().rposition(|byte| matches!(byte, b'/' | b'\\'));
    &path[separator.map_or(0, |at| at + 1)..]
}

/// Returns a path with `/` between its parts, so that it can be searched for a folder.
#[must_use]
pub fn with_slashes(path: &str) -> Cow<'_, str> {
    if path.contains('\\') { Cow::Owned(path.replace('\\', "/")) } else { Cow::Borrowed(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_separators_end_a_folder() {
        for (path, base) in [
            ("/a/train.py", "train.py"),
            (r"D:\code\train.py", "train.py"),
            (r"C:\env/Lib\torch/nn.py", "nn.py"),
            ("train.py", "train.py"),
            ("??", "??"),
            ("/a/", ""),
        ] {
            assert_eq!(base_name(path), base, "{path}");
            assert_eq!(with_slashes(path).rsplit('/').next(), Some(base), "{path}");
        }
        assert!(matches!(with_slashes("/a/b"), Cow::Borrowed("/a/b")));
    }
}
