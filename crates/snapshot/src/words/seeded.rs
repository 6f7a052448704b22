//! Hash maps and sets with a random seed, for keys that come from a file.
//!
//! Without a seed, a small file can choose keys with equal hashes, so that each lookup compares with all of them.
//! The seed differs from map to map and from run to run, and so does the order of iteration: sort before the order
//! can be seen.

use std::{
    collections::{HashMap, HashSet},
    hash::BuildHasher,
};

/// Builds the hashers; as fast as unseeded ones for small keys.
pub type Seeded = foldhash::fast::RandomState;

/// A map whose keys may come from a file.
pub type SeededMap<K, V> = HashMap<K, V, Seeded>;

/// A set whose elements may come from a file.
pub type SeededSet<T> = HashSet<T, Seeded>;

/// Returns a number that a file cannot know.
pub fn number() -> u64 {
    Seeded::default().hash_one(0)
}
