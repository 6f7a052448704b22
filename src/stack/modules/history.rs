//! Remembers which module an address was in when its stack was captured, even after the module is unloaded.
//!
//! Addresses are numbers, and a library may be loaded where another one was. So a module has lives, which start when it
//! is first seen in the loader's list and end when it is no longer there, and every list that differs from the previous
//! one starts a [`Generation`]. A stack is kept with its generation, and its addresses belong to the modules that were
//! loaded then. A library that no stack ran through is forgotten when it is unloaded.
//!
//! The file is long because generations, lives and the list share one invariant.
//!
//! The list is never changed: a newer one replaces it. So the lock protects only a pointer, and nothing is allocated or
//! freed under it, which might involve the very allocator that is recorded.
//!
//! One case remains imprecise: a stack whose addresses all reappear under another library is not new to its interner,
//! so it is named after the first library.
#![forbid(unsafe_code)]

use std::{
    cell::Cell,
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    loader::{self, Version},
    module::{self, Module},
};
use crate::tape::ModuleNote;
use memreel_lockfree::sync::ReentryGuard;

/// Counts the different lists of loaded modules that were seen in this process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Generation(u32);

impl Generation {
    /// Returns the number, which rises with each list.
    pub(in crate::stack) fn number(self) -> u32 {
        self.0
    }

    /// Returns the generation with a number that was read from a tape.
    pub(crate) fn of_number(number: u32) -> Generation {
        Generation(number)
    }

    /// Later than every generation.
    const NEVER: Generation = Generation(u32::MAX);
}

/// A module with a number that distinguishes it from every other module of this process, loaded or not. Another build,
/// or the same build at another address, is another module.
#[derive(PartialEq, Eq, Debug)]
pub(in crate::stack) struct Life {
    pub(in crate::stack) number: u32,
    pub(in crate::stack) module: Module,
}

/// Remembers the modules that a stack runs through; returns the generation to keep with the stack.
///
/// Call this while the stack's functions are still running, and without a lock, because it may wait for the loader's
/// lock. If no library was loaded or unloaded since the last call, it costs reading the loader's two counters and one
/// look-up per address.
pub(in crate::stack) fn note(addresses: &[usize]) -> Generation {
    current().map_or(Generation::default(), |history| {
        history.note(addresses);
        history.generation
    })
}

/// Returns how many libraries were ever unloaded; `None` if the loader cannot be called now.
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
))]
pub(in crate::stack) fn n_unloaded() -> Option<u64> {
    loader::version().map(|version| version.n_unloaded)
}

/// Returns the present generation.
pub(in crate::stack) fn now() -> Generation {
    current().map_or(Generation::default(), |history| history.generation)
}

/// Returns the module that each address was in, in a generation.
pub(in crate::stack) fn owners(addresses: &[usize], generation: Generation) -> Vec<Option<Arc<Life>>> {
    let history = LIST.get();
    let owner = |address: &usize| history.as_ref()?.owner(*address, generation).cloned();
    addresses.iter().map(owner).collect()
}

/// Returns the modules that were loaded in a generation.
pub(in crate::stack) fn loaded_in(generation: Generation) -> Vec<ModuleNote> {
    let Some(history) = LIST.get() else { return Vec::new() };
    let loaded = history.presences.iter().filter(|presence| presence.was_loaded_in(generation));
    loaded.map(|presence| presence.life.module.to_note()).collect()
}

/// The modules of a process, read from a tape's file.
#[derive(Debug)]
pub(crate) struct PastModules {
    history: Recording,
    /// The landmark's address, and a generation in which its module was loaded.
    landmark: (usize, Generation),
}

impl PastModules {
    /// Creates it from lists of modules, each valid from a generation on, by rising generation.
    pub(crate) fn of<'a>(
        lists: impl Iterator<Item = (u32, &'a [ModuleNote])>,
        landmark: usize,
    ) -> PastModules {
        let mut history = Recording::new();
        for (generation, modules) in lists {
            let modules: Vec<Module> = modules.iter().map(Module::of_note).collect();
            history.generation = Generation(generation.max(1) - 1);
            let n_loaded = history.version.map_or(0, |version| version.n_loaded) + 1;
            // Any module may be part of a stack.
            history.presences.iter().for_each(|presence| presence.is_noted.store(true, Ordering::Relaxed));
            history.update(Version { n_loaded, n_unloaded: 0 }, &modules);
        }
        let landmark = (landmark, history.generation);
        PastModules { history, landmark }
    }

    pub(in crate::stack) fn landmark(&self) -> (usize, Generation) {
        self.landmark
    }

    /// Returns the module that each address was in, in a generation.
    pub(in crate::stack) fn owners(
        &self,
        addresses: &[usize],
        generation: Generation,
    ) -> Vec<Option<Arc<Life>>> {
        addresses.iter().map(|address| self.history.owner(*address, generation).cloned()).collect()
    }

    /// Returns every module that the process had at any time.
    pub(in crate::stack) fn modules(&self) -> impl Iterator<Item = &Module> {
        self.history.presences.iter().map(|presence| &presence.life.module)
    }
}

/// Returns the history up to the loader's present list; `None` if there is none and none can be created now.
///
/// The loader is called without the lock: a thread that holds the loader's lock may be about to add a stack. So another
/// thread may be faster with a newer list, and an older one then changes nothing.
fn current() -> Option<Arc<Recording>> {
    let version = loader::version();
    let seen = LIST.get();
    if seen.is_some() && (version.is_none() || seen.as_ref().and_then(|seen| seen.version) == version) {
        return seen;
    }
    let (version, modules) = module::list();
    loop {
        let before = LIST.get();
        if before.as_ref().and_then(|before| before.version).is_some_and(|seen| seen >= version) {
            return before;
        }
        let mut next = before.as_deref().map_or_else(Recording::new, Recording::clone);
        next.update(version, &modules);
        let next = Arc::new(next);
        match LIST.replace(before.as_ref(), &next) {
            Replaced::Done(_) => return Some(next),
            Replaced::Changed => {}
            Replaced::Interrupted => return before,
        }
    }
}

/// The present history, which is replaced and never changed.
static LIST: List = List(Mutex::new(None));

/// A history under a lock that is taken to copy or to replace a pointer.
struct List(
    /// No other lock is taken under it.
    Mutex<Option<Arc<Recording>>>,
);

/// The outcome of [`List::replace`], with the history to be dropped outside the lock.
enum Replaced {
    Done(#[expect(dead_code, reason = "it is dropped by the caller")] Option<Arc<Recording>>),
    Changed,
    /// This is a signal handler that interrupted a thread holding the lock.
    Interrupted,
}

thread_local! {
    static HAS_LIST: Cell<bool> = const { Cell::new(false) };
}

impl List {
    /// Returns the history; `None` before the first one, and in a signal handler that interrupted a thread holding the
    /// lock.
    fn get(&self) -> Option<Arc<Recording>> {
        let _guard = ReentryGuard::enter(&HAS_LIST)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces `before` by `next`, unless `before` is no longer the present history.
    fn replace(&self, before: Option<&Arc<Recording>>, next: &Arc<Recording>) -> Replaced {
        let Some(_guard) = ReentryGuard::enter(&HAS_LIST) else { return Replaced::Interrupted };
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.as_ref().map(Arc::as_ptr) == before.map(Arc::as_ptr) {
            Replaced::Done(list.replace(next.clone()))
        } else {
            Replaced::Changed
        }
    }
}

/// Makes the list of modules safe across forks.
pub(in crate::stack) fn survive_forks() {
    use crate::process::fork::{Level, register_static};
    register_static(Level::Loader, loader::hold);
    register_static(Level::Modules, |held| held.lock_static(&LIST.0));
}

/// When a module was loaded, at times that matter to a stack.
#[derive(Clone, Debug)]
struct Presence {
    life: Arc<Life>,
    /// Rising; the last ends at [`Generation::NEVER`] while the module is loaded.
    spans: Vec<Range<Generation>>,
    /// Whether a stack was added in the last span; the histories that have this span share it. Relaxed: the functions
    /// of a stack run while it is added, so the loader's lock, under which a later look finds them unloaded, comes in
    /// between.
    is_noted: Arc<AtomicBool>,
}

impl Presence {
    fn is_loaded(&self) -> bool {
        self.spans.last().is_some_and(|span| span.end == Generation::NEVER)
    }

    fn was_loaded_in(&self, generation: Generation) -> bool {
        self.spans.iter().any(|span| span.contains(&generation))
    }

    fn contains(&self, address: usize) -> bool {
        self.life.module.ranges.iter().any(|range| range.contains(&address))
    }

    fn begin(&mut self, generation: Generation) {
        self.spans.push(generation..Generation::NEVER);
        self.is_noted = Arc::default();
    }

    /// Ends the last span, which is forgotten if no stack needs it: a program that loads and unloads for ever needs
    /// only memory for its stacks.
    fn end(&mut self, generation: Generation) {
        match self.spans.pop() {
            Some(span) if self.is_noted.load(Ordering::Relaxed) => self.spans.push(span.start..generation),
            _ => {}
        }
    }
}

#[derive(Clone, Debug)]
struct Recording {
    /// The last version of the list that was seen.
    version: Option<Version>,
    generation: Generation,
    presences: Vec<Presence>,
    n_lives: u32,
    /// The ranges of loaded modules, by address, with the indexes of their presences.
    loaded: Vec<(Range<usize>, usize)>,
}

impl Recording {
    fn new() -> Recording {
        Recording {
            version: None,
            generation: Generation(0),
            presences: Vec::new(),
            n_lives: 0,
            loaded: Vec::new(),
        }
    }

    fn update(&mut self, version: Version, modules: &[Module]) {
        if self.version.is_some_and(|seen| seen >= version) {
            return;
        }
        self.version = Some(version);
        self.generation.0 += 1;
        for presence in &mut self.presences {
            if presence.is_loaded() && !modules.contains(&presence.life.module) {
                presence.end(self.generation);
            }
        }
        self.presences.retain(|presence| !presence.spans.is_empty());
        modules.iter().for_each(|module| self.see(module));
        self.index_loaded();
    }

    /// Adds a module from the list: one that is still loaded, one that is loaded again, or a new one.
    fn see(&mut self, module: &Module) {
        let generation = self.generation;
        match self.presences.iter_mut().find(|presence| presence.life.module == *module) {
            Some(presence) if presence.is_loaded() => {}
            Some(presence) => presence.begin(generation),
            None => {
                let life = Arc::new(Life { number: self.n_lives, module: module.clone() });
                self.n_lives += 1;
                let spans = vec![generation..Generation::NEVER];
                self.presences.push(Presence { life, spans, is_noted: Arc::default() });
            }
        }
    }

    fn index_loaded(&mut self) {
        let loaded = self.presences.iter().enumerate().filter(|(_, presence)| presence.is_loaded());
        self.loaded = loaded
            .flat_map(|(at, presence)| {
                presence.life.module.ranges.iter().map(move |range| (range.clone(), at))
            })
            .collect();
        self.loaded.sort_unstable_by_key(|(range, _)| range.start);
    }

    fn note(&self, addresses: &[usize]) {
        for address in addresses {
            if let Some(at) = self.loaded_at(address.wrapping_sub(1)) {
                self.presences[at].is_noted.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Returns the module of the byte before a return address: a call may be the last instruction of its module.
    fn owner(&self, address: usize, generation: Generation) -> Option<&Arc<Life>> {
        let inside = address.checked_sub(1)?;
        let loaded = self.loaded_at(inside).map(|at| &self.presences[at]);
        let presence = loaded.filter(|presence| presence.was_loaded_in(generation)).or_else(|| {
            let mut gone = self.presences.iter().filter(|presence| !presence.is_loaded());
            gone.find(|presence| presence.contains(inside) && presence.was_loaded_in(generation))
        });
        presence.map(|presence| &presence.life)
    }

    /// Returns the index of the loaded module that contains an address.
    fn loaded_at(&self, address: usize) -> Option<usize> {
        let next = self.loaded.partition_point(|(range, _)| range.start <= address);
        let (range, at) = &self.loaded[next.checked_sub(1)?];
        range.contains(&address).then_some(*at)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::fingerprint::Fingerprint, *};

    fn module(path: &str, start: usize, build: u64) -> Module {
        let fingerprint = Fingerprint::of_number(build);
        let range = start..start + 0x100;
        Module { path: path.into(), bias: start, ranges: vec![range], fingerprint }
    }

    /// A history, and its lists of modules one after another.
    struct Lists(Recording, u64);

    impl Lists {
        fn new(modules: Vec<Module>) -> Lists {
            let mut lists = Lists(Recording::new(), 0);
            lists.next(modules);
            lists
        }

        fn next(&mut self, modules: Vec<Module>) {
            self.1 += 1;
            self.0.update(Version { n_loaded: self.1, n_unloaded: 0 }, &modules);
        }

        fn note(&mut self, addresses: &[usize]) -> Generation {
            self.0.note(addresses);
            self.0.generation
        }

        fn names(&self, addresses: &[usize], generation: Generation) -> Vec<String> {
            let name = |address: &usize| match self.0.owner(*address, generation) {
                Some(life) => format!("{}.{}", life.module.path.display(), life.number),
                None => "-".into(),
            };
            addresses.iter().map(name).collect()
        }
    }

    #[test]
    fn addresses_belong_to_the_module_of_the_byte_before() {
        let lists = Lists::new(vec![module("b", 0x2000, 0), module("a", 0x1000, 0)]);
        let addresses = [0, 0x1000, 0x1001, 0x1100, 0x1101, 0x2050, usize::MAX];
        assert_eq!(lists.names(&addresses, lists.0.generation), ["-", "-", "a.1", "a.1", "-", "b.0", "-"]);
    }

    #[test]
    fn a_library_outlives_its_unloading_if_a_stack_ran_through_it() {
        let (main, a, b) = (module("main", 0x1000, 0), module("a", 0x2000, 0), module("b", 0x3000, 0));
        let mut lists = Lists::new(vec![main.clone(), a.clone(), b]);
        let first = lists.note(&[0x2010, 0x1010]);
        lists.next(vec![main.clone()]);
        assert_eq!(lists.names(&[0x2010, 0x2020, 0x3010, 0x1010], first), ["a.1", "a.1", "-", "main.0"]);
        assert_eq!(lists.0.presences.len(), 2, "no stack ran through b");
        assert_eq!(lists.names(&[0x2010, 0x1010], lists.0.generation), ["-", "main.0"]);
        lists.next(vec![main, a]);
        assert_eq!(lists.names(&[0x2010], lists.0.generation), ["a.1"], "the same build at the same place");
        assert_eq!(lists.names(&[0x2010], first), ["a.1"]);
    }

    #[test]
    fn modules_at_the_same_addresses_are_distinguished() {
        let mut lists = Lists::new(vec![module("a", 0x2000, 0)]);
        let in_a = lists.note(&[0x2010]);
        lists.next(vec![module("b", 0x2000, 0)]);
        let in_b = lists.note(&[0x2010]);
        lists.next(vec![module("b", 0x2000, 1)]);
        let in_other_b = lists.note(&[0x2010]);
        lists.next(vec![]);
        let in_none = lists.note(&[0x2010]);
        lists.next(vec![module("a", 0x2000, 0)]);
        let in_a_again = lists.note(&[0x2010]);
        lists.next(vec![module("c", 0x2000, 0)]);
        let generations = [in_a, in_b, in_other_b, in_none, in_a_again];
        let names: Vec<_> = generations.map(|generation| lists.names(&[0x2010], generation).concat()).into();
        assert_eq!(names, ["a.0", "b.1", "b.2", "-", "a.0"]);
    }

    #[test]
    fn an_older_list_changes_nothing() {
        let mut lists = Lists::new(vec![module("a", 0x2000, 0)]);
        lists.0.update(Version { n_loaded: 5, n_unloaded: 0 }, &[module("b", 0x2000, 0)]);
        lists.0.update(Version { n_loaded: 4, n_unloaded: 0 }, &[module("a", 0x2000, 0)]);
        assert_eq!(lists.names(&[0x2010], lists.0.generation), ["b.1"]);
    }

    #[test]
    fn loading_and_unloading_for_ever_costs_nothing() {
        let mut lists = Lists::new(vec![]);
        for i in 1..1000 {
            lists.next(vec![module("a", 0x1000 * i as usize, i), module("b", 0x100, 0)]);
            lists.note(&[7]);
            lists.next(vec![]);
        }
        assert!(lists.0.presences.is_empty() && lists.0.loaded.is_empty());
    }

    #[test]
    fn this_program_is_noted() {
        let here = note as fn(&[usize]) -> Generation as usize + 1;
        let owners = owners(&[here, 5], note(&[here, 5]));
        assert_eq!(owners[0].as_ref().unwrap().module.path, std::env::current_exe().unwrap());
        assert_eq!(owners[1], None);
    }
}
