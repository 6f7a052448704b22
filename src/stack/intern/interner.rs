//! Numbers for stacks: equal stacks get the same number.
#![forbid(unsafe_code)]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{
    frames::{AtomicFrames, Frames},
    key::{self, hash_of},
    limits::{DEFAULT_STACKS, MAX_DEPTH, MAX_STACKS, TABLE_FULL},
    memory::StackMemory,
    noted::{AskLater, StackNotes},
    reserve,
    source::{FrameSource, SourceSlot},
};
use crate::{
    stack::modules::{self, Generation},
    tape::TapeFile,
};
use memreel_lockfree::stacks::{Adding, Key, NONE, Stacks};
use memreel_snapshot::words::StackId;

/// Every distinct stack seen, as return addresses, up to a limit.
///
/// Stacks live as long as the interner: a live block may outlast the entry that
/// brought its stack. Known stacks are found without a lock; a new one is
/// added under the lock of the table.
#[derive(Debug)]
pub(crate) struct StackInterner {
    /// Distinguishes the numbers of this interner from another's; never 0.
    number: u64,
    stacks: Stacks<StackMemory>,
    source: SourceSlot,
    frames: AtomicFrames,
}

/// The words of a stack, and when they were captured.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct StackParts {
    /// The words of the frame source, innermost first.
    pub(crate) source: Vec<usize>,
    /// The return addresses, innermost first.
    pub(crate) native: Vec<usize>,
    /// The modules that were loaded when the stack was new.
    pub(crate) generation: Generation,
}

impl StackInterner {
    /// An interner for at most `limit` distinct stacks.
    pub(crate) fn new(limit: usize) -> StackInterner {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        const { assert!(StackId::NONE.0 == NONE) };
        // Relaxed: only each number's being another counts.
        StackInterner {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            stacks: Stacks::new(limit.min(MAX_STACKS), StackMemory::default()),
            source: SourceSlot::default(),
            frames: AtomicFrames::default(),
        }
    }

    /// Sets which frames stacks have from now on.
    pub(crate) fn set_frames(&self, frames: Frames) {
        let joins = self.source.get().is_none_or(|source| source.joins_native());
        self.frames.set(frames, joins);
    }

    /// Returns which frames stacks have.
    #[inline(always)]
    pub(in crate::stack) fn frames(&self) -> Frames {
        self.frames.get()
    }

    #[inline(always)]
    pub(in crate::stack) fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether the source is asked at each capture.
    #[inline(always)]
    pub(in crate::stack) fn has_source(&self) -> bool {
        self.asked().is_some()
    }

    /// The source, if stacks have words of it.
    #[inline(always)]
    fn asked(&self) -> Option<&dyn FrameSource> {
        self.source.get().filter(|_| self.frames.asks_source()).map(|source| &**source)
    }

    /// Sets the source that is asked at each capture from now on; returns whether it was the
    /// first, because an interner keeps its first source.
    pub(crate) fn set_source(&self, source: Arc<dyn FrameSource>) -> bool {
        let joins = source.joins_native();
        let is_first = self.source.set(source);
        if is_first {
            self.frames.set(self.frames(), joins);
        }
        is_first
    }

    /// The source, which names its words.
    pub(crate) fn source(&self) -> Option<&Arc<dyn FrameSource>> {
        self.source.get()
    }

    /// Returns the number of the stack with these return addresses, innermost first,
    /// and the words of the source, if there is one.
    ///
    /// A full table counts the stack and returns the number of its innermost words
    /// ([`SHORT_DEPTH`](super::limits::SHORT_DEPTH)). Once it has no room for these, it returns the number of the stack that
    /// has only the frame [`TABLE_FULL`](super::limits::TABLE_FULL).
    pub(crate) fn intern(&self, addresses: &[usize]) -> StackId {
        let mut native = [0; MAX_DEPTH];
        let len = addresses.len().min(MAX_DEPTH);
        for (word, address) in native.iter_mut().zip(addresses[..len].iter().rev()) {
            *word = *address;
        }
        self.intern_native(&native[..len], hash_of(0, &native[..len]))
    }

    /// Like [`StackInterner::intern`], for addresses that are outermost first and already hashed
    /// by [`prefix_hash`](super::key::prefix_hash).
    #[inline]
    pub(in crate::stack) fn intern_native(&self, native: &[usize], hash: u64) -> StackId {
        match self.asked() {
            None => self.number_of(key::of_native(native, hash)),
            Some(source) => self.intern_with(source, native, hash),
        }
    }

    /// Returns the number of the stack that has only the source's present words; none if there are none.
    #[inline]
    pub(in crate::stack) fn intern_source(&self) -> StackId {
        let Some(source) = self.asked() else { return StackId::NONE };
        let mut words = [0; MAX_DEPTH];
        match self.captured(source, &mut words) {
            [] => StackId::NONE,
            words => self.number_of(key::with_source(&[], 0, words)),
        }
    }

    /// Returns the number of these addresses and the source's present words, if they are known.
    #[inline]
    pub(in crate::stack) fn find_native(&self, native: &[usize], hash: u64) -> Option<StackId> {
        match self.asked() {
            None => self.known(key::of_native(native, hash)),
            Some(source) => {
                let mut words = [0; MAX_DEPTH];
                self.known(key::with_source(native, hash, self.captured(source, &mut words)))
            }
        }
    }

    /// Whether this is the number of a stack that is kept, whole or short, not the one that marks a table without room.
    #[inline]
    pub(in crate::stack) fn is_kept(&self, stack: StackId) -> bool {
        self.stacks.is_kept(stack.0)
    }

    #[inline(never)]
    fn intern_with(&self, source: &dyn FrameSource, native: &[usize], hash: u64) -> StackId {
        let mut words = [0; MAX_DEPTH];
        self.number_of(key::with_source(native, hash, self.captured(source, &mut words)))
    }

    /// The words of a source's frames on this thread now; none if the source panics, because recording never fails.
    #[inline]
    fn captured<'a>(&self, source: &dyn FrameSource, words: &'a mut [usize; MAX_DEPTH]) -> &'a [usize] {
        let capture = || match self.frames() {
            Frames::Native => source.capture_for_native(words),
            Frames::Source | Frames::All => source.capture(words),
        };
        let n = catch_unwind(AssertUnwindSafe(capture)).unwrap_or(0).min(MAX_DEPTH);
        &words[..n]
    }

    fn number_of(&self, key: Key<'_>) -> StackId {
        self.known(key).unwrap_or_else(|| StackId(self.stacks.insert(key, self)))
    }

    #[inline]
    fn known(&self, key: Key<'_>) -> Option<StackId> {
        self.stacks.known(key).map(StackId)
    }

    fn noted(&self) -> Option<Arc<StackNotes>> {
        self.stacks.with_memory(|memory| memory.noted.clone())
    }

    /// The return addresses of a stack, innermost first; none for [`StackId::NONE`].
    #[cfg(test)]
    pub(crate) fn addresses(&self, stack: StackId) -> Vec<usize> {
        self.parts(stack).native
    }

    /// The parts of a stack; empty for [`StackId::NONE`].
    pub(crate) fn parts(&self, stack: StackId) -> StackParts {
        let Some(stack) = self.stacks.stack(stack.0) else { return StackParts::default() };
        StackParts {
            source: stack.source.to_vec(),
            native: stack.native.iter().rev().copied().collect(),
            generation: Generation::of_number(stack.generation),
        }
    }

    /// Returns the table, which a fork holds.
    pub(crate) fn table(&self) -> &Stacks<StackMemory> {
        &self.stacks
    }

    /// Writes stacks into the file of a tape from now on, with those that are known; `None` ends it.
    pub(crate) fn set_file(&self, file: Option<(Arc<TapeFile>, AskLater)>) {
        self.stacks.change_memory(|memory| {
            memory.file = file.as_ref().map(|(file, _)| file.clone());
            memory.noted = file.map(|(file, later)| Arc::new(StackNotes::new(file, later)));
            memory.noted.is_some()
        });
        let Some(noted) = self.noted() else { return };
        let source = self.source.get().map(|source| &**source);
        noted.add(modules::now(), &[], source);
        for stack in (0..self.stacks.n_stacks()).filter_map(|number| u32::try_from(number).ok()) {
            let parts = self.parts(StackId(stack));
            noted.add(parts.generation, &parts.source, source);
        }
    }

    /// Writes the names of the frame source's new words into the file.
    pub(crate) fn name_words(&self) {
        if let (Some(noted), Some(source)) = (self.noted(), self.source.get()) {
            noted.name_words(&**source);
        }
    }

    /// The number of distinct stacks that are kept whole.
    pub(crate) fn n_stacks(&self) -> usize {
        self.stacks.n_whole()
    }

    /// The number of captures that found the table full.
    pub(crate) fn n_refused(&self) -> u64 {
        self.stacks.n_refused()
    }
}

impl Adding for StackInterner {
    fn note(&self, key: Key<'_>) -> u32 {
        // Not under the table's lock, because the loader's is taken; and now, because the functions still run, so their
        // libraries are still loaded.
        let generation = modules::note(key.native);
        if let Some(noted) = self.noted() {
            noted.add(generation, key.source, self.source.get().map(|source| &**source));
        }
        generation.number()
    }

    fn room(&self, limit: usize) -> usize {
        reserve::room(limit)
    }

    fn shortened<'a>(&self, key: Key<'a>) -> Key<'a> {
        key::shortened(key)
    }

    fn full(&self) -> Key<'static> {
        Key { hash: 0, native: &[TABLE_FULL], source: &[] }
    }
}

impl Default for StackInterner {
    fn default() -> StackInterner {
        StackInterner::new(DEFAULT_STACKS)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, sync::Barrier, thread};

    use super::{super::source::SourceFrame, *};

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
        let short: Vec<StackId> = (13..16).map(|word| table.intern(&[word])).collect();
        assert_eq!(table.addresses(short[2]), [15]);
        let full = table.intern(&[16]);
        assert!(!known.contains(&full));
        assert_eq!(table.addresses(full), [TABLE_FULL]);
        assert_eq!(table.intern(&[17]), full);
        assert_eq!(table.intern(&[11]), known[1], "what is known stays known");
        assert_eq!((table.n_stacks(), table.n_refused()), (3, 5));
        let none = StackInterner::new(0);
        assert_eq!(none.addresses(none.intern(&[1, 2])), [TABLE_FULL]);
    }

    #[test]
    fn a_full_table_keeps_innermost_frames() {
        let table = StackInterner::new(40);
        (10..45).for_each(|word| _ = table.intern(&[word]));
        let deep = |outer: usize, inner: usize| [inner, 101, 102, 103, 104, outer];
        let short = table.intern(&deep(900, 200));
        assert_eq!(table.addresses(short), [200, 101, 102], "innermost first");
        assert_eq!(table.intern(&deep(901, 200)), short, "the rest is left out");
        assert_eq!(table.addresses(table.intern(&[17])), [17], "what is known stays known");
        let others: Vec<StackId> = (201..240).map(|inner| table.intern(&deep(900, inner))).collect();
        assert!(others.iter().zip(201..).all(|(stack, inner)| table.addresses(*stack)[0] == inner));
        let none = table.intern(&deep(900, 240));
        assert_eq!(table.addresses(none), [TABLE_FULL], "as many short ones, and no more");
        assert_eq!((table.n_stacks(), table.n_refused()), (35, 42));
        // What is kept free is for devices.
        let of_device = reserve::with(|| table.intern(&deep(900, 240)));
        assert_eq!(table.addresses(of_device), deep(900, 240));
        assert_eq!(table.n_stacks(), 36);
    }

    #[test]
    fn it_grows_and_forgets_nothing() {
        // Miri needs a second for a hundred of them.
        const N: usize = if cfg!(miri) { 300 } else { 20_000 };
        let table = StackInterner::new(2 * N);
        let words = |i: usize| -> Vec<usize> { (0..i % 50).map(|k| i * 1000 + k / 2).chain([i]).collect() };
        let stacks: Vec<StackId> = (0..N).map(|i| table.intern(&words(i))).collect();
        for (i, stack) in stacks.iter().enumerate() {
            assert_eq!(table.addresses(*stack), words(i));
            assert_eq!(table.intern(&words(i)), *stack);
        }
        assert_eq!((table.n_stacks(), table.n_refused()), (N, 0));
    }

    #[test]
    fn threads_agree_on_every_number() {
        const N_THREADS: usize = if cfg!(miri) { 2 } else { 8 };
        const N: usize = if cfg!(miri) { 20 } else { 500 };
        for _ in 0..if cfg!(miri) { 2 } else { 20 } {
            let table = StackInterner::new(100_000);
            let barrier = Barrier::new(N_THREADS);
            let intern = |thread: usize| -> HashMap<Vec<usize>, StackId> {
                barrier.wait();
                // Some stacks are shared by all threads, some are this thread's own.
                let shared = (0..N).map(|i| vec![i, 7, 9]);
                let own = (0..N).map(|i| vec![i, 7, 1000 + thread]);
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
            assert_eq!(table.n_stacks(), N + N * N_THREADS);
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
        fn name(&self, _: usize) -> Vec<SourceFrame> {
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
        assert_eq!((table.parts(both).source, table.parts(both).native), (vec![4, 5], vec![1, 2]));
        source.0.store(6, Ordering::Relaxed);
        let other = table.intern(&[1, 2]);
        assert_ne!(other, both);
        assert_eq!((table.parts(other).source, table.parts(other).native), (vec![6, 5], vec![1, 2]));
        assert_eq!(Arc::strong_count(&source), 2);
        drop(table);
        assert_eq!(Arc::strong_count(&source), 1);
    }

    /// A source like [`Fixed`], whose words are not in stacks of native frames.
    struct Apart(Fixed);

    impl FrameSource for Apart {
        fn capture(&self, words: &mut [usize]) -> usize {
            self.0.capture(words)
        }
        fn name(&self, _: usize) -> Vec<SourceFrame> {
            Vec::new()
        }
        fn joins_native(&self) -> bool {
            false
        }
    }

    #[test]
    fn the_frames_that_are_asked_for_decide_what_a_stack_has() {
        let table = StackInterner::new(100);
        assert_eq!(table.intern_source(), StackId::NONE, "without a source");
        table.set_frames(Frames::All);
        assert!(table.set_source(Arc::new(Apart(Fixed(AtomicU64::new(4))))));
        let of = |stack| (table.parts(stack).source, table.parts(stack).native);
        assert_eq!(of(table.intern(&[1, 2])), (vec![4, 5], vec![1, 2]));
        table.set_frames(Frames::Source);
        assert_eq!(of(table.intern_source()), (vec![4, 5], vec![]));
        table.set_frames(Frames::Native);
        assert!(!table.has_source());
        assert_eq!(of(table.intern(&[1, 2])), (vec![], vec![1, 2]));
        let joining = StackInterner::new(100);
        joining.set_frames(Frames::Native);
        joining.set_source(Arc::new(Fixed(AtomicU64::new(4))));
        assert_eq!(joining.parts(joining.intern(&[1])).source, [4, 5], "a source that joins native frames");
    }
}
