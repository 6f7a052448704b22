//! The path of a scope: its name after those of the scopes around it.
//!
//! Paths share the scopes around them, so that a thousand scopes inside one with a long name do not hold that name a
//! thousand times. A path is compared as its text, `outer/inner`.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    sync::{Arc, OnceLock},
};

use serde::{Serialize, Serializer};

use crate::{model::Text, words::seeded};

/// The path of a scope; empty outside any scope. It displays as `outer/inner`.
///
/// ```
/// use memreel::history::ScopePath;
///
/// let path = ScopePath::from("step/forward");
/// assert_eq!((path.to_string().as_str(), path.is_empty()), ("step/forward", false));
/// assert!(path == *"step/forward");
/// ```
#[derive(Clone, Default)]
pub struct ScopePath(Option<Arc<Link>>);

struct Link {
    outer: ScopePath,
    name: Text,
    /// The bytes of the whole path.
    n_bytes: usize,
    /// Of the bytes of the whole path.
    hash: u64,
}

impl ScopePath {
    /// The path outside any scope.
    pub(crate) const EMPTY: ScopePath = ScopePath(None);

    /// Returns the path of a scope inside this one, whose name has this [`hash_of`].
    pub(crate) fn inner(&self, name: Text, hash: u64) -> ScopePath {
        let (n_bytes, hash) = match &self.0 {
            None => (name.len(), hash),
            Some(outer) => {
                let separated = joined_hash(outer.hash, hash_of("/"), 1);
                (outer.n_bytes + 1 + name.len(), joined_hash(separated, hash, name.len()))
            }
        };
        ScopePath(Some(Arc::new(Link { outer: self.clone(), name, n_bytes, hash })))
    }

    /// Returns whether the text of the path is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n_bytes() == 0
    }

    fn n_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |part| part.n_bytes)
    }

    fn hash(&self) -> u64 {
        self.0.as_ref().map_or(0, |part| part.hash)
    }

    /// The paths from the outermost scope to this one.
    fn chain(&self) -> Vec<&Arc<Link>> {
        let mut parts: Vec<&Arc<Link>> =
            std::iter::successors(self.0.as_ref(), |part| part.outer.0.as_ref()).collect();
        parts.reverse();
        parts
    }

    /// The pieces of the text, which names and slashes make.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &str> {
        pieces(self.chain(), 0)
    }

    fn has_text_of(&self, other: &ScopePath) -> bool {
        let (mut one, mut other) = (self, other);
        loop {
            match (&one.0, &other.0) {
                (Some(left), Some(right)) if Arc::ptr_eq(left, right) => return true,
                (Some(left), Some(right)) if left.name.len() == right.name.len() => {
                    if !Arc::ptr_eq(&left.name, &right.name) && left.name != right.name {
                        return false;
                    }
                    (one, other) = (&left.outer, &right.outer);
                }
                // A name may contain a slash.
                _ => return bytes(one.pieces()).eq(bytes(other.pieces())),
            }
        }
    }

    /// Returns whether a scope of the path has a name, which may be a path itself, given whether the path around the
    /// innermost scope has one. Every scope inside it is in it too.
    pub(crate) fn is_in(&self, name: &str, is_outer_in: bool) -> bool {
        let Some(part) = &self.0 else { return false };
        if is_outer_in || name.is_empty() {
            return is_outer_in;
        }
        // A match that the scopes around do not have ends in the last name, so it begins at most this far before it.
        let before = part.outer.ending(name.len());
        let separator = if part.outer.0.is_some() { "/" } else { "" };
        let is_cut = before.len() < part.outer.n_bytes();
        has_scope(&format!("{before}{separator}{}", part.name), name, is_cut)
    }

    /// Returns at least the last `n_bytes` bytes of the text, or all of it, from the beginning of a character on.
    fn ending(&self, n_bytes: usize) -> String {
        let mut pieces: Vec<&str> = Vec::new();
        let mut n_left = n_bytes + 4;
        for part in self.chain().into_iter().rev() {
            let cut = part.name.len().saturating_sub(n_left);
            let cut = (0..=cut).rev().find(|cut| part.name.is_char_boundary(*cut)).unwrap_or(0);
            pieces.push(&part.name[cut..]);
            if part.outer.0.is_some() && cut == 0 {
                pieces.push("/");
            }
            n_left = n_left.saturating_sub(part.name.len() + 1);
            if n_left == 0 {
                break;
            }
        }
        pieces.reverse();
        pieces.concat()
    }
}

fn pieces(chain: Vec<&Arc<Link>>, first: usize) -> impl Iterator<Item = &str> {
    chain.into_iter().enumerate().skip(first).flat_map(|(depth, part)| {
        let slash = (depth > 0).then_some("/");
        slash.into_iter().chain([&*part.name])
    })
}

fn bytes<'p>(pieces: impl Iterator<Item = &'p str>) -> impl Iterator<Item = u8> {
    pieces.flat_map(str::bytes)
}

/// Returns whether a scope of a path has a name, which may be a path itself. Every scope inside it is in it
/// too.
pub(crate) fn is_in_scope(path: &str, name: &str) -> bool {
    has_scope(path, name, false)
}

/// Like [`is_in_scope`]; if `is_cut`, the path has lost its beginning.
fn has_scope(path: &str, name: &str, is_cut: bool) -> bool {
    let is_whole = |(at, _): (usize, &str)| {
        let (before, after) = (&path[..at], &path[at + name.len()..]);
        (before.is_empty() && !is_cut || before.ends_with('/'))
            && (after.is_empty() || after.starts_with('/'))
    };
    !name.is_empty() && path.match_indices(name).any(is_whole)
}

/// A text is the polynomial of its bytes. [`hash_of`] is its value at [`factor`], modulo this prime number.
const PRIME: u64 = (1 << 61) - 1;

/// Returns a random number, the same for the whole process. A file cannot know it, and so cannot choose many texts with
/// equal hashes.
fn factor() -> u64 {
    static FACTOR: OnceLock<u64> = OnceLock::new();
    *FACTOR.get_or_init(|| seeded::number() % (PRIME - 256) + 256)
}

/// Returns a product modulo [`PRIME`], of numbers below it.
fn times(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    // 2^61 is 1 modulo the prime number.
    reduced((product & u128::from(PRIME)) as u64 + (product >> 61) as u64)
}

/// Returns a sum of two numbers below [`PRIME`] modulo it.
fn reduced(sum: u64) -> u64 {
    if sum >= PRIME { sum - PRIME } else { sum }
}

/// Returns the hash of a text. Those of two texts are that of both together ([`joined_hash`]).
pub(crate) fn hash_of(text: &str) -> u64 {
    let factor = factor();
    text.bytes().fold(0, |hash, byte| reduced(times(hash, factor) + u64::from(byte) + 1))
}

/// Returns the hash of two texts, one after the other, of which the second has `n_bytes` bytes.
fn joined_hash(first: u64, second: u64, n_bytes: usize) -> u64 {
    let (mut factor, mut power, mut left) = (factor(), 1, n_bytes);
    while left > 0 {
        if left % 2 == 1 {
            power = times(power, factor);
        }
        factor = times(factor, factor);
        left /= 2;
    }
    reduced(times(first, power) + second)
}

impl From<&str> for ScopePath {
    fn from(path: &str) -> ScopePath {
        ScopePath::EMPTY.inner(path.into(), hash_of(path))
    }
}

impl fmt::Display for ScopePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pieces().try_for_each(|piece| f.write_str(piece))
    }
}

impl fmt::Debug for ScopePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl Serialize for ScopePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl PartialEq for ScopePath {
    fn eq(&self, other: &ScopePath) -> bool {
        (self.n_bytes(), self.hash()) == (other.n_bytes(), other.hash()) && self.has_text_of(other)
    }
}

impl Eq for ScopePath {}

impl PartialEq<str> for ScopePath {
    fn eq(&self, other: &str) -> bool {
        self.n_bytes() == other.len() && bytes(self.pieces()).eq(other.bytes())
    }
}

impl PartialEq<&str> for ScopePath {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl Hash for ScopePath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(ScopePath::hash(self));
    }
}

impl Ord for ScopePath {
    fn cmp(&self, other: &ScopePath) -> Ordering {
        let (one, other) = (self.chain(), other.chain());
        let n_shared = one.iter().zip(&other).take_while(|(one, other)| Arc::ptr_eq(one, other)).count();
        bytes(pieces(one, n_shared)).cmp(bytes(pieces(other, n_shared)))
    }
}

impl PartialOrd for ScopePath {
    fn partial_cmp(&self, other: &ScopePath) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(names: &[&str]) -> ScopePath {
        names.iter().fold(ScopePath::EMPTY, |outer, name| outer.inner((*name).into(), hash_of(name)))
    }

    const PATHS: [&[&str]; 10] = [
        &[],
        &["a"],
        &["a", "b"],
        &["a/b"],
        &["a/b", "c"],
        &["a", "b/c"],
        &["ab", "c"],
        &["step", "forward", "step"],
        &["ä", "ö", "ä"],
        &["a-b", "c"],
    ];

    #[test]
    fn a_path_is_compared_as_its_text() {
        for (one, other) in PATHS.iter().flat_map(|one| PATHS.iter().map(move |other| (one, other))) {
            let (paths, texts) = ((path(one), path(other)), (one.join("/"), other.join("/")));
            assert_eq!(paths.0.to_string(), texts.0);
            assert_eq!(paths.0 == paths.1, texts.0 == texts.1, "{texts:?}");
            assert_eq!(paths.0.cmp(&paths.1), texts.0.cmp(&texts.1), "{texts:?}");
            assert_eq!(paths.0 == *texts.1, texts.0 == texts.1, "{texts:?}");
            assert_eq!(paths.0.hash() == paths.1.hash(), texts.0 == texts.1, "{texts:?}");
        }
    }

    /// Texts that had one hash for a fixed factor, modulo 2^64.
    #[test]
    fn a_file_cannot_choose_texts_with_one_hash() {
        let texts = ["ddddddddgdddddidehdh", "dgehdhgedgfedfdddded"];
        let old = |text: &str| {
            let factor = 0x5851_f42d_4c95_7f2d;
            text.bytes().fold(0, |hash: u64, byte| hash.wrapping_mul(factor).wrapping_add(byte.into()))
        };
        assert_eq!(old(texts[0]), old(texts[1]));
        assert_ne!(hash_of(texts[0]), hash_of(texts[1]));
    }

    #[test]
    fn a_scope_is_found_in_the_paths_inside_it() {
        let is_in = |names: &[&str], name: &str| {
            let all = (1..=names.len()).map(|n| path(&names[..n]));
            all.fold(false, |is_outer_in, path| path.is_in(name, is_outer_in))
        };
        for names in PATHS {
            let text = names.join("/");
            for name in
                ["a", "b", "c", "a/b", "b/c", "a/b/c", "ab", "step", "forward/step", "ä", "ö/ä", "-b", ""]
            {
                assert_eq!(is_in(names, name), is_in_scope(&text, name), "{name} in {text}");
            }
        }
    }
}
