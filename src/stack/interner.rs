//! The same stack is the same number.

use std::sync::{
    Arc,
    atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering},
};

use super::{
    capture::MAX_DEPTH,
    index::Index,
    insert::{Inserted, Inserter},
    names,
    record::Record,
    source::{FrameSource, SourceSlot},
};
use crate::event::StackId;

/// How many distinct stacks a recorder keeps unless it is told otherwise.
///
/// Programs that train have a few thousand. At 40 frames a stack this many take
/// 44 MB, which is what a recorder may cost that was left on and forgotten
/// in a program whose stacks never repeat.
pub(crate) const DEFAULT_LIMIT: usize = 1 << 17;

/// Numbers above this are not given out: whoever keeps a number has 24 bits for it.
const MOST_STACKS: usize = (1 << 24) - 2;

/// Every distinct stack seen, as return addresses, up to a limit.
///
/// Stacks stay for the table's life: a live block may outlast the entry that
/// brought its stack. Known stacks are found without a lock; a new one is
/// added under the lock of `insert.rs`.
#[derive(Debug)]
pub(crate) struct StackInterner {
    /// Tells this table's numbers from another's; never 0.
    number: u64,
    /// Owned by `inserter`, which puts a larger one here and keeps the old.
    index: AtomicPtr<Index>,
    inserter: Inserter,
    /// The number of the stack that says "full", once the table is.
    full: AtomicU32,
    n_refused: AtomicU64,
    source: SourceSlot,
}

/// What identifies a stack: its words in the order in which captures have them.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) hash: u64,
    /// Return addresses, outermost first.
    pub(super) native: &'a [usize],
    /// The source's words, as it gave them.
    pub(super) source: &'a [usize],
}

impl StackInterner {
    /// A table of at most `limit` distinct stacks.
    pub(crate) fn new(limit: usize) -> StackInterner {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Not left to the first capture, which may be inside of an allocator.
        let _ = super::stack_method();
        let (inserter, index) = Inserter::new(limit.min(MOST_STACKS));
        StackInterner {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            index: AtomicPtr::new(index),
            inserter,
            full: AtomicU32::new(StackId::NONE.0),
            n_refused: AtomicU64::new(0),
            source: SourceSlot::default(),
        }
    }

    #[inline(always)]
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    #[inline(always)]
    pub(super) fn has_source(&self) -> bool {
        self.source.get().is_some()
    }

    /// Asks this source at each capture from now on. Whether it was the first: there is only one.
    pub(crate) fn set_source(&self, source: Arc<dyn FrameSource>) -> bool {
        self.source.set(source)
    }

    /// The source, to name its words.
    pub(crate) fn source(&self) -> Option<&Arc<dyn FrameSource>> {
        self.source.get()
    }

    /// The number of the stack with these return addresses, innermost first,
    /// and the words of the source, if there is one.
    ///
    /// A full table counts the stack and gives the number of the stack that has
    /// only the frame [`TABLE_FULL`].
    pub(crate) fn intern(&self, addresses: &[usize]) -> StackId {
        let mut native = [0; MAX_DEPTH];
        let len = addresses.len().min(MAX_DEPTH);
        for (word, address) in native.iter_mut().zip(addresses[..len].iter().rev()) {
            *word = *address;
        }
        let hash = native[..len].iter().enumerate().fold(0, |hash, (i, word)| prefix_hash(hash, i, *word));
        self.intern_native(&native[..len], hash)
    }

    /// As [`StackInterner::intern`], outermost first, with the hash of all words by [`prefix_hash`].
    #[inline]
    pub(super) fn intern_native(&self, native: &[usize], hash: u64) -> StackId {
        match self.source.get() {
            None => self.number_of(Key { hash: finish(hash), native, source: &[] }),
            Some(source) => self.intern_with(&**source, native, hash),
        }
    }

    /// The number of these addresses, and of what the source says now, if they were met before.
    #[inline]
    pub(super) fn find_native(&self, native: &[usize], hash: u64) -> Option<StackId> {
        match self.source.get() {
            None => self.known(Key { hash: finish(hash), native, source: &[] }),
            Some(source) => {
                let mut words = [0; MAX_DEPTH];
                self.known(with_source(&**source, native, hash, &mut words))
            }
        }
    }

    /// Whether it is the number of a stack that is kept, and not that of a full table.
    #[inline]
    pub(super) fn is_kept(&self, stack: StackId) -> bool {
        self.full.load(Ordering::Relaxed) != stack.0
    }

    #[inline(never)]
    fn intern_with(&self, source: &dyn FrameSource, native: &[usize], hash: u64) -> StackId {
        let mut words = [0; MAX_DEPTH];
        self.number_of(with_source(source, native, hash, &mut words))
    }

    fn number_of(&self, key: Key<'_>) -> StackId {
        self.known(key).unwrap_or_else(|| self.insert(key))
    }

    #[inline]
    fn known(&self, key: Key<'_>) -> Option<StackId> {
        // SAFETY: `inserter` owns the index and drops none before itself.
        let index = unsafe { &*self.index.load(Ordering::Acquire) };
        index.find(key).map(Record::stack)
    }

    #[cold]
    #[inline(never)]
    fn insert(&self, key: Key<'_>) -> StackId {
        let full = StackId(self.full.load(Ordering::Acquire));
        if full.is_some() {
            self.n_refused.fetch_add(1, Ordering::Relaxed);
            return full;
        }
        let inserted = self.inserter.insert(key, &self.index);
        if let Inserted::Refused(stack) = inserted {
            self.full.store(stack.0, Ordering::Release);
            self.n_refused.fetch_add(1, Ordering::Relaxed);
        } else {
            // With the lock let go, because the loader's is taken; now, because
            // the functions still run, so their libraries are still loaded.
            let innermost_first: Vec<usize> = key.native.iter().rev().copied().collect();
            names::note(&innermost_first);
        }
        inserted.stack()
    }

    /// The return addresses of a stack, innermost first; none for [`StackId::NONE`].
    #[cfg(test)]
    pub(crate) fn addresses(&self, stack: StackId) -> Vec<usize> {
        self.parts(stack).1
    }

    /// The source's words and the return addresses of a stack, innermost first.
    pub(crate) fn parts(&self, stack: StackId) -> (Vec<usize>, Vec<usize>) {
        let Some(record) = self.inserter.record(stack) else { return Default::default() };
        let (native, source) = record.parts();
        (source.to_vec(), native.iter().rev().copied().collect())
    }

    /// How many distinct stacks there are.
    pub(crate) fn n_stacks(&self) -> usize {
        self.inserter.n_stacks()
    }

    /// How many captures found the table full.
    pub(crate) fn n_refused(&self) -> u64 {
        self.n_refused.load(Ordering::Relaxed)
    }
}

impl Default for StackInterner {
    fn default() -> StackInterner {
        StackInterner::new(DEFAULT_LIMIT)
    }
}

/// The key of a stack with what the source says of it now.
fn with_source<'a>(
    source: &dyn FrameSource,
    native: &'a [usize],
    hash: u64,
    words: &'a mut [usize; MAX_DEPTH],
) -> Key<'a> {
    let n = source.capture(words).min(MAX_DEPTH);
    let words = &words[..n];
    let hash = words.iter().enumerate().fold(finish(hash), |hash, (i, word)| prefix_hash(hash, i, *word));
    Key { hash: finish(hash), native, source: words }
}

/// The hash of a stack's words up to the one at `index`, given that of those before it.
///
/// A sum of products and no chain of them: when inner frames change, the sum of
/// the outer ones stands, and the multiplications do not wait for one another.
#[inline(always)]
pub(super) fn prefix_hash(before: u64, index: usize, word: usize) -> u64 {
    before.wrapping_add((word as u64).wrapping_mul(FACTORS[index % MAX_DEPTH]))
}

/// Spreads a sum over all bits: a sum's low bits know the words' low bits only.
#[inline(always)]
fn finish(hash: u64) -> u64 {
    let folded = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    folded ^ (folded >> 29)
}

/// Odd numbers without a pattern, one for each place of a word.
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

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, sync::Barrier, thread};

    use super::{super::TABLE_FULL, *};

    #[test]
    fn the_same_stack_is_the_same_number() {
        let table = StackInterner::new(100);
        let a = table.intern(&[1, 2, 3]);
        let b = table.intern(&[1, 2]);
        assert_ne!(a, b);
        assert_eq!(table.intern(&[1, 2, 3]), a);
        assert_eq!(table.addresses(b), [1, 2]);
        assert_eq!(table.addresses(StackId::NONE), [0; 0]);
        assert_eq!((table.n_stacks(), table.n_refused()), (2, 0));
    }

    #[test]
    fn a_full_table_says_so_and_counts() {
        let table = StackInterner::new(3);
        let known: Vec<StackId> = (10..13).map(|word| table.intern(&[word])).collect();
        let full = table.intern(&[13]);
        assert!(!known.contains(&full));
        assert_eq!(table.addresses(full), [TABLE_FULL]);
        assert_eq!(table.intern(&[14]), full);
        assert_eq!(table.intern(&[11]), known[1], "what is known stays known");
        assert_eq!((table.n_stacks(), table.n_refused()), (3, 2));
        let none = StackInterner::new(0);
        assert_eq!(none.addresses(none.intern(&[1, 2])), [TABLE_FULL]);
    }

    #[test]
    fn it_grows_and_forgets_nothing() {
        let table = StackInterner::new(20_000);
        let words = |i: usize| -> Vec<usize> { (0..i % 50).map(|k| i * 1000 + k / 2).chain([i]).collect() };
        let stacks: Vec<StackId> = (0..20_000).map(|i| table.intern(&words(i))).collect();
        for (i, stack) in stacks.iter().enumerate() {
            assert_eq!(table.addresses(*stack), words(i));
            assert_eq!(table.intern(&words(i)), *stack);
        }
        assert_eq!((table.n_stacks(), table.n_refused()), (20_000, 0));
    }

    #[test]
    fn threads_agree_on_every_number() {
        const N_THREADS: usize = 8;
        for _ in 0..20 {
            let table = StackInterner::new(100_000);
            let barrier = Barrier::new(N_THREADS);
            let intern = |thread: usize| -> HashMap<Vec<usize>, StackId> {
                barrier.wait();
                // Some stacks are everybody's, some this thread's own.
                let shared = (0..500).map(|i| vec![i, 7, 9]);
                let own = (0..500).map(|i| vec![i, 7, 1000 + thread]);
                shared.chain(own).map(|words| (words.clone(), table.intern(&words))).collect()
            };
            let maps: Vec<_> = thread::scope(|scope| {
                let threads: Vec<_> = (0..N_THREADS).map(|i| scope.spawn(move || intern(i))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let mut all: HashMap<Vec<usize>, StackId> = HashMap::new();
            for (words, stack) in maps.into_iter().flatten() {
                assert_eq!(table.addresses(stack), words);
                assert_eq!(*all.entry(words).or_insert(stack), stack);
            }
            assert_eq!(table.n_stacks(), 500 + 500 * N_THREADS);
            assert_eq!(all.len(), table.n_stacks());
        }
    }

    /// Gives two words, of which the test chooses the first.
    struct Fixed(AtomicU64);

    impl FrameSource for Fixed {
        fn capture(&self, words: &mut [usize]) -> usize {
            words[..2].copy_from_slice(&[self.0.load(Ordering::Relaxed) as usize, 5]);
            2
        }
        fn name(&self, _: usize) -> Vec<super::super::source::SourceFrame> {
            Vec::new()
        }
    }

    #[test]
    fn a_sources_words_are_part_of_a_stack() {
        let table = StackInterner::new(100);
        let native_only = table.intern(&[1, 2]);
        let source = Arc::new(Fixed(AtomicU64::new(4)));
        assert!(table.set_source(source.clone()));
        assert!(!table.set_source(source.clone()), "the first one stays");
        let both = table.intern(&[1, 2]);
        assert_ne!(both, native_only);
        assert_eq!(table.parts(both), (vec![4, 5], vec![1, 2]));
        source.0.store(6, Ordering::Relaxed);
        let other = table.intern(&[1, 2]);
        assert_ne!(other, both);
        assert_eq!(table.parts(other), (vec![6, 5], vec![1, 2]));
        assert_eq!(Arc::strong_count(&source), 2);
        drop(table);
        assert_eq!(Arc::strong_count(&source), 1);
    }

    #[test]
    fn a_sources_frames_are_asked_for_at_each_capture() {
        let table = StackInterner::new(100);
        let source = Arc::new(Fixed(AtomicU64::new(4)));
        table.set_source(source.clone());
        let mut stacks = Vec::new();
        // A list that the compiler does not know: one call, not three.
        for word in std::hint::black_box(vec![4, 4, 8]) {
            source.0.store(word, Ordering::Relaxed);
            stacks.push(super::super::capture(&table));
        }
        assert_eq!(stacks[0], stacks[1]);
        assert_ne!(stacks[0], stacks[2]);
        assert_eq!(table.parts(stacks[2]).0, [8, 5]);
        assert_eq!(table.parts(stacks[2]).1, table.parts(stacks[0]).1);
    }
}
