//! The hashes of stacks.
#![forbid(unsafe_code)]

use memreel_lockfree::stacks::Key;

use super::limits::{MAX_DEPTH, SHORT_DEPTH};

/// Returns the key of a stack without a frame source; `hash` is that of all words by [`prefix_hash`].
#[inline]
pub(super) fn of_native(native: &[usize], hash: u64) -> Key<'_> {
    Key { hash: finish(hash), native, source: &[] }
}

/// Returns the key of a stack with the words of a frame source; `hash` is that of the native words.
#[inline]
pub(super) fn with_source<'a>(native: &'a [usize], hash: u64, source: &'a [usize]) -> Key<'a> {
    let hash = hash_of(finish(hash), source);
    Key { hash: finish(hash), native, source }
}

/// Returns the key of only the innermost words.
pub(super) fn shortened(key: Key<'_>) -> Key<'_> {
    let native = &key.native[key.native.len().saturating_sub(SHORT_DEPTH)..];
    let source = &key.source[..key.source.len().min(SHORT_DEPTH)];
    match source {
        [] => of_native(native, hash_of(0, native)),
        _ => with_source(native, hash_of(0, native), source),
    }
}

/// Returns the hash of words that follow others with the hash `before`, counted from 0.
#[inline]
pub(super) fn hash_of(before: u64, words: &[usize]) -> u64 {
    words.iter().enumerate().fold(before, |hash, (i, word)| prefix_hash(hash, i, *word))
}

/// Returns the hash of a stack's words up to the one at `index`, given that of the words before it.
///
/// A sum of products, not a chain of them: when inner frames change, the sum over
/// the outer frames stays valid, and the multiplications do not wait for one another.
#[inline(always)]
pub(in crate::stack) fn prefix_hash(before: u64, index: usize, word: usize) -> u64 {
    before.wrapping_add((word as u64).wrapping_mul(FACTORS[index % MAX_DEPTH]))
}

/// Spreads a sum over all bits: the low bits of a sum depend only on the low bits of the words.
#[inline(always)]
fn finish(hash: u64) -> u64 {
    let folded = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    folded ^ (folded >> 29)
}

/// Odd numbers without a pattern, one for each position of a word.
static FACTORS: [u64; MAX_DEPTH] = {
    let mut factors = [0; MAX_DEPTH];
    let mut state = 0_u64;
    let mut i = 0;
    while i < MAX_DEPTH {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        factors[i] = (b ^ (b >> 31)) | 1;
        i += 1;
    }
    factors
};
