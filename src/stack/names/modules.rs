//! Which module an address was in when its stack was captured, although the module may be gone since.
//!
//! Addresses are numbers, and a library that is loaded after another was
//! unloaded may get the same ones. So a module has a life: it begins when it is
//! first seen in the loader's list and ends when it is no longer there; another
//! build, or the same at another place, is another life. Every address of a new
//! stack is claimed for the life it lies in. A stack that finds one of its
//! addresses claimed for an earlier life is remembered as a whole with the
//! lives of its own time.
//!
//! What remains imprecise: a stack all of whose numbers come back under another
//! library is not new to its table, so it is named after the first; and of two
//! recorders that saw the same numbers in different lives, both are named after
//! the later. A library that no noted stack went through is forgotten when it goes.
#![forbid(unsafe_code)]

use std::{
    ops::Range,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustc_hash::FxHashMap;

use super::{
    identity::Identity,
    loader::{self, Loaded, Version},
};

/// So many addresses and so many disputed stacks are remembered in a process,
/// some 50 MiB at the worst. Any further address is named after the module
/// that has its place at export.
const MAX_CLAIMS: usize = 1 << 20;
const MAX_DISPUTES: usize = 1 << 16;

/// One life of one build of a program or library at one place.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Module {
    /// Counts up over the lives of the process.
    pub(super) number: u32,
    pub(super) path: PathBuf,
    /// What was added to the addresses in its file.
    pub(super) bias: usize,
    pub(super) ranges: Vec<Range<usize>>,
    pub(super) identity: Identity,
}

impl Module {
    fn is(&self, loaded: &Loaded) -> bool {
        self.bias == loaded.bias
            && self.path == loaded.path
            && self.ranges == loaded.ranges
            && self.identity == loaded.identity
    }
}

/// Remembers the modules that a stack runs through. Call it while the stack's
/// functions are still running, when the stack is new to its table, and with no
/// lock held: it may wait for the loader's.
///
/// When no library came or went since the last call this costs the loader's
/// two counters and one look-up an address.
pub(crate) fn note(addresses: &[usize]) {
    current().claim(addresses);
}

/// The module each address of a stack was in when the stack was noted. Of
/// addresses that were not: the one that is there now, or was there last.
pub(super) fn owners(addresses: &[usize]) -> Vec<Option<Arc<Module>>> {
    lock().owners(addresses)
}

/// Reads the loader's list, if it changed.
pub(super) fn refresh() {
    drop(current());
}

/// The map, as new as the loader's list.
///
/// The loader is asked with the map unlocked: whoever holds the loader's lock
/// may be about to note a stack of its own. So another thread may be faster
/// with a newer list, and an older one then changes nothing.
fn current() -> MutexGuard<'static, Map> {
    let version = loader::version();
    let map = lock();
    if map.version == Some(version) {
        return map;
    }
    drop(map);
    let (version, modules) = loader::list();
    let mut map = lock();
    map.update(version, modules);
    map
}

fn lock() -> MutexGuard<'static, Map> {
    /// std's lock even under loom: it is a leaf, nothing waits under it.
    static MAP: Mutex<Map> = Mutex::new(Map::new());
    MAP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A life and the claims on it.
#[derive(Debug)]
struct Life {
    module: Arc<Module>,
    is_loaded: bool,
    /// Without any, a life that ended is forgotten: a program that loads and
    /// unloads for ever stays as small as its stacks.
    n_claims: usize,
}

/// The numbers of the lives that a stack's addresses lay in.
type Lives = Box<[Option<u32>]>;

#[derive(Debug)]
struct Map {
    /// Of the list that was last looked at.
    version: Option<Version>,
    lives: FxHashMap<u32, Life>,
    n_lives_ever: u32,
    n_ended: usize,
    /// The ranges of loaded modules, rising.
    loaded: Vec<(Range<usize>, u32)>,
    /// The life that each noted address first lay in; none for code of no module.
    claims: FxHashMap<usize, Option<u32>>,
    disputes: FxHashMap<Box<[usize]>, Lives>,
}

impl Map {
    const fn new() -> Map {
        Map {
            version: None,
            lives: FxHashMap::with_hasher(rustc_hash::FxBuildHasher),
            n_lives_ever: 0,
            n_ended: 0,
            loaded: Vec::new(),
            claims: FxHashMap::with_hasher(rustc_hash::FxBuildHasher),
            disputes: FxHashMap::with_hasher(rustc_hash::FxBuildHasher),
        }
    }

    fn update(&mut self, version: Version, modules: Vec<Loaded>) {
        if self.version.is_some_and(|seen| seen >= version) {
            return;
        }
        self.version = Some(version);
        for life in self.lives.values_mut() {
            life.is_loaded = false;
        }
        self.loaded.clear();
        for module in modules {
            let number = self.life_of(module);
            let ranges = self.lives.get_mut(&number).into_iter().flat_map(|life| {
                life.is_loaded = true;
                life.module.ranges.iter().map(move |range| (range.clone(), number))
            });
            self.loaded.extend(ranges);
        }
        self.loaded.sort_unstable_by_key(|(range, _)| range.start);
        self.lives.retain(|_, life| life.is_loaded || life.n_claims > 0);
        self.n_ended = self.lives.values().filter(|life| !life.is_loaded).count();
    }

    /// The life of a module in the list: the one it has, the one it had before
    /// it was unloaded if it is the same build at the same place, or a new one.
    fn life_of(&mut self, loaded: Loaded) -> u32 {
        if let Some(life) = self.lives.values().find(|life| !life.is_loaded && life.module.is(&loaded)) {
            return life.module.number;
        }
        let number = self.n_lives_ever;
        self.n_lives_ever += 1;
        let Loaded { path, bias, ranges, identity } = loaded;
        let module = Arc::new(Module { number, path, bias, ranges, identity });
        self.lives.insert(number, Life { module, is_loaded: true, n_claims: 0 });
        number
    }

    fn claim(&mut self, addresses: &[usize]) {
        let mut is_disputed = false;
        for address in addresses {
            match self.claims.get(address) {
                // Nothing is gone that was ever claimed, so all is as it was.
                Some(Some(_)) if self.n_ended == 0 && self.disputes.is_empty() => {}
                Some(life) => is_disputed |= *life != self.loaded_at(*address),
                None => self.claim_one(*address),
            }
        }
        if is_disputed && self.disputes.len() < MAX_DISPUTES {
            let lives: Lives = addresses.iter().map(|address| self.loaded_at(*address)).collect();
            self.hold(&lives);
            self.disputes.insert(addresses.into(), lives);
        }
    }

    fn claim_one(&mut self, address: usize) {
        if self.claims.len() < MAX_CLAIMS {
            let life = self.loaded_at(address);
            self.claims.insert(address, life);
            self.hold(&[life]);
        }
    }

    /// Lives that are claimed outlast their modules.
    fn hold(&mut self, lives: &[Option<u32>]) {
        for number in lives.iter().flatten() {
            if let Some(life) = self.lives.get_mut(number) {
                life.n_claims += 1;
            }
        }
    }

    /// The life that holds the byte before an address: a call may be the last instruction of its module.
    fn loaded_at(&self, address: usize) -> Option<u32> {
        let inside = address.checked_sub(1)?;
        let next = self.loaded.partition_point(|(range, _)| range.start <= inside);
        let (range, number) = &self.loaded[next.checked_sub(1)?];
        range.contains(&inside).then_some(*number)
    }

    /// The last life that held an address, of those that are remembered.
    fn ended_at(&self, address: usize) -> Option<u32> {
        let inside = address.checked_sub(1)?;
        let held = |life: &&Life| life.module.ranges.iter().any(|range| range.contains(&inside));
        self.lives.values().filter(|life| !life.is_loaded).filter(held).map(|life| life.module.number).max()
    }

    fn owners(&self, addresses: &[usize]) -> Vec<Option<Arc<Module>>> {
        let module = |number: Option<u32>| Some(self.lives.get(&number?)?.module.clone());
        if let Some(lives) = self.disputes.get(addresses) {
            return lives.iter().map(|life| module(*life)).collect();
        }
        let life = |address: &usize| match self.claims.get(address) {
            Some(life) => *life,
            None => self.loaded_at(*address).or_else(|| self.ended_at(*address)),
        };
        addresses.iter().map(|address| module(life(address))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(version: u64) -> Version {
        Version { n_loaded: version, n_unloaded: 0 }
    }

    fn loaded(path: &str, start: usize, build: u64) -> Loaded {
        let range = start..start + 0x100;
        Loaded { path: path.into(), bias: start, ranges: vec![range], identity: Identity::Print(build) }
    }

    fn names(map: &Map, addresses: &[usize]) -> Vec<String> {
        let name = |module: &Option<Arc<Module>>| match module {
            Some(module) => format!("{}.{}", module.path.display(), module.number),
            None => "-".into(),
        };
        map.owners(addresses).iter().map(name).collect()
    }

    fn map(modules: Vec<Loaded>) -> Map {
        let mut map = Map::new();
        map.update(at(1), modules);
        map
    }

    #[test]
    fn addresses_belong_to_the_module_of_the_byte_before() {
        let map = map(vec![loaded("b", 0x2000, 0), loaded("a", 0x1000, 0)]);
        let addresses = [0, 0x1000, 0x1001, 0x1100, 0x1101, 0x2050, usize::MAX];
        assert_eq!(names(&map, &addresses), ["-", "-", "a.1", "a.1", "-", "b.0", "-"]);
    }

    #[test]
    fn a_library_outlives_its_unloading_if_a_stack_ran_through_it() {
        let mut map = map(vec![loaded("main", 0x1000, 0), loaded("a", 0x2000, 0), loaded("b", 0x3000, 0)]);
        map.claim(&[0x2010, 0x1010]);
        map.update(at(2), vec![loaded("main", 0x1000, 0)]);
        assert_eq!(names(&map, &[0x2010, 0x2020, 0x3010, 0x1010]), ["a.1", "a.1", "-", "main.0"]);
        assert_eq!(map.lives.len(), 2, "nobody claimed b");
        map.update(at(3), vec![loaded("main", 0x1000, 0), loaded("a", 0x2000, 0)]);
        assert_eq!(names(&map, &[0x2010]), ["a.1"], "the same build at the same place lives on");
        assert_eq!(map.n_ended, 0);
    }

    #[test]
    fn two_libraries_with_the_same_addresses_are_told_apart() {
        let mut map = map(vec![loaded("a", 0x2000, 0)]);
        map.claim(&[0x2010, 0x2050]);
        map.update(at(2), vec![loaded("b", 0x2000, 0)]);
        map.claim(&[0x2010, 0x2060]);
        map.claim(&[0x2060]);
        map.update(at(3), vec![loaded("b", 0x2000, 1)]);
        map.claim(&[0x2010]);
        map.update(at(4), vec![]);
        map.claim(&[0x2060, 0x2010]);
        assert_eq!(names(&map, &[0x2010, 0x2050]), ["a.0", "a.0"]);
        assert_eq!(names(&map, &[0x2010, 0x2060]), ["b.1", "b.1"]);
        assert_eq!(names(&map, &[0x2060]), ["b.1"]);
        assert_eq!(names(&map, &[0x2010]), ["b.2"], "another build of the same path");
        assert_eq!(names(&map, &[0x2060, 0x2010]), ["-", "-"], "code of no module where one was");
        assert_eq!(map.disputes.len(), 3);
    }

    #[test]
    fn an_older_list_changes_nothing() {
        let mut map = map(vec![loaded("a", 0x2000, 0)]);
        map.update(at(5), vec![loaded("b", 0x2000, 0)]);
        map.update(at(4), vec![loaded("a", 0x2000, 0)]);
        assert_eq!(names(&map, &[0x2010]), ["b.1"]);
    }

    #[test]
    fn loading_and_unloading_for_ever_costs_nothing() {
        let mut map = map(vec![]);
        for i in 1..1000 {
            map.update(at(2 * i), vec![loaded("a", 0x1000 * i as usize, i)]);
            map.claim(&[7]);
            map.update(at(2 * i + 1), vec![]);
        }
        assert_eq!((map.lives.len(), map.claims.len(), map.disputes.len()), (0, 1, 0));
    }

    #[test]
    fn this_program_is_noted() {
        let here = note as fn(&[usize]) as usize + 1;
        note(&[here, 5]);
        let owners = owners(&[here, 5]);
        assert_eq!(owners[0].as_ref().unwrap().path, std::env::current_exe().unwrap());
        assert_eq!(owners[1], None);
    }
}
