//! Names the frames of stacks when a snapshot is taken, each address once.
#![forbid(unsafe_code)]

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::past::Past;
use super::{
    super::{
        intern::SourceFrame,
        landmark,
        modules::{self, Generation, Life},
    },
    symbol::Symbol,
    target::{self, Key, Named, Target},
    texts::Texts,
    trim::{self, Origin},
};

/// A call at an address, its origin, and the file name of its program or library.
#[derive(Debug)]
struct Call {
    symbol: Symbol,
    origin: Origin,
    library: Option<Arc<str>>,
}

/// The calls of one target, innermost first.
#[derive(Clone, Debug)]
struct Known {
    calls: Arc<[Call]>,
    is_trampoline: bool,
}

/// Names addresses and remembers their names.
///
/// It locks the history of modules only for look-ups, and locks nothing of a recorder.
#[derive(Debug, Default)]
pub(crate) struct Symbolizer {
    known: FxHashMap<Key, Known>,
    texts: Texts,
    /// The source file of the landmark, once something was named.
    walker: Option<Arc<str>>,
    /// The modules of another process, whose tape is read.
    past: Option<Arc<Past>>,
}

/// Returns the frames of return addresses in this process, as a snapshot names them: one list for each address,
/// innermost first.
///
/// An address has several frames if calls were inlined, and one whose name is a number if no function is known there.
/// Name many addresses in one call: the files of a module are read once for all its addresses.
///
/// ```
/// fn caller() {}
/// let within = caller as fn() as usize + 1;
/// let frames = memreel::integrate::name_addresses(&[within]);
/// assert!(!frames[0].is_empty());
/// ```
#[must_use]
pub fn name_addresses(addresses: &[usize]) -> Vec<Vec<SourceFrame>> {
    let (mut symbolizer, now) = (Symbolizer::default(), modules::now());
    symbolizer.prepare([(addresses, now)].into_iter());
    let frame = |call: &Call| SourceFrame {
        name: (*call.symbol.name).into(),
        filename: (*call.symbol.filename).into(),
        line: call.symbol.line,
    };
    let mut frames = |address: &usize| -> Vec<SourceFrame> {
        let known = symbolizer.named(&[*address], now);
        known.iter().flat_map(|known| known.calls.iter()).map(frame).collect()
    };
    addresses.iter().map(&mut frames).collect()
}

impl Symbolizer {
    /// Names the addresses of these stacks at once, each distinct one once, by module and in rising order. This is much
    /// faster than stack by stack, because a module's files are open only while its addresses are named.
    pub(crate) fn prepare<'a>(&mut self, stacks: impl Iterator<Item = (&'a [usize], Generation)>) {
        let mut by_generation: FxHashMap<Generation, Vec<usize>> = FxHashMap::default();
        for (addresses, generation) in stacks {
            by_generation.entry(generation).or_default().extend(addresses);
        }
        let (landmark, now) = self.landmark();
        by_generation.entry(now).or_default().push(landmark);
        let mut unknown = Vec::new();
        for (generation, mut addresses) in by_generation {
            addresses.sort_unstable();
            addresses.dedup();
            let owners = self.owners(&addresses, generation);
            let targets = addresses.into_iter().zip(owners).map(Target::of_call);
            unknown.extend(targets.filter(|target| !self.known.contains_key(&target.key())));
        }
        self.learn(unknown);
    }

    /// Returns a symbolizer for the addresses of another process.
    pub(crate) fn of_past(past: Arc<Past>) -> Symbolizer {
        Symbolizer { past: Some(past), ..Symbolizer::default() }
    }

    /// Returns the module that each address was in, in a generation.
    fn owners(&self, addresses: &[usize], generation: Generation) -> Vec<Option<Arc<Life>>> {
        if let Some(past) = &self.past {
            return past.modules.owners(addresses, generation);
        }
        modules::owners(addresses, generation)
    }

    /// Returns the address of the landmark, and the present generation.
    fn landmark(&self) -> (usize, Generation) {
        if let Some(past) = &self.past {
            return past.modules.landmark();
        }
        (landmark::address(), modules::now())
    }

    /// Returns how many addresses have names.
    pub(super) fn n_known(&self) -> usize {
        self.known.len()
    }

    /// Calls `look` with the frames of a stack, innermost first, and with the file name of the program or library that
    /// each is in, if it is known. Leaves out memreel's own frames at the top, and those of its libraries that wrap
    /// others.
    ///
    /// Each symbol remains at its address for as long as the symbolizer lives. `generation` is the one in which the
    /// stack was captured: it decides between libraries that had the same addresses.
    pub(crate) fn for_each_frame(
        &mut self,
        addresses: &[usize],
        generation: Generation,
        mut look: impl FnMut(&Symbol, Option<&Arc<str>>),
    ) {
        let known = self.named(addresses, generation);
        let calls = || known.iter().flat_map(|known| known.calls.iter());
        let n_ours = trim::n_ours(calls().map(|call| (call.origin, &*call.symbol.name)));
        let shown = calls().skip(n_ours).filter(|call| !trim::is_in_front(call.library.as_deref()));
        shown.for_each(|call| look(&call.symbol, call.library.as_ref()));
    }

    /// Returns the frames of a stack in the modules loaded now, including memreel's own.
    #[cfg(test)]
    pub(super) fn whole(&mut self, addresses: &[usize]) -> Vec<Symbol> {
        let known = self.named(addresses, modules::now());
        known.iter().flat_map(|known| known.calls.iter().map(|call| call.symbol.clone())).collect()
    }

    /// Like [`Symbolizer::whole`], but without memreel's own frames at the top.
    #[cfg(test)]
    fn frames(&mut self, addresses: &[usize]) -> Vec<Symbol> {
        let mut frames = Vec::new();
        self.for_each_frame(addresses, modules::now(), |symbol, _| frames.push(symbol.clone()));
        frames
    }

    fn named(&mut self, addresses: &[usize], generation: Generation) -> Vec<Known> {
        let owners = self.owners(addresses, generation);
        let mut targets: Vec<Target> = addresses.iter().copied().zip(owners).map(Target::of_call).collect();
        let mut named = self.all(&targets);
        // A signal interrupts between any two instructions, so the address
        // after the handler's return is itself the next instruction.
        let mut is_interrupted = false;
        for (target, before) in targets.iter_mut().skip(1).zip(&named) {
            target.is_return = !before.is_trampoline;
            is_interrupted |= before.is_trampoline;
        }
        if is_interrupted {
            named = self.all(&targets);
        }
        named
    }

    fn all(&mut self, targets: &[Target]) -> Vec<Known> {
        let known = |symbolizer: &Symbolizer| -> Option<Vec<Known>> {
            targets.iter().map(|target| symbolizer.known.get(&target.key()).cloned()).collect()
        };
        known(self).unwrap_or_else(|| {
            self.learn(targets.to_vec());
            known(self).unwrap_or_default()
        })
    }

    fn learn(&mut self, mut targets: Vec<Target>) {
        if self.walker.is_none() {
            targets.extend(self.target_of_landmark());
        }
        targets.retain(|target| !self.known.contains_key(&target.key()));
        targets.sort_unstable_by_key(Target::key);
        targets.dedup();
        let named = self.name_all(&targets);
        let walker = match &self.walker {
            Some(walker) => walker.clone(),
            None => {
                let landmark = self.target_of_landmark();
                self.walker.insert(file_of_landmark(landmark, &targets, &named)).clone()
            }
        };
        for (target, named) in targets.iter().zip(named) {
            let library = target.library().map(|name| self.texts.share(&name));
            let calls = named.symbols.iter().map(|symbol| Call {
                symbol: Symbol {
                    name: self.texts.share(&symbol.name),
                    filename: self.texts.share(&symbol.filename),
                    line: symbol.line,
                },
                origin: Origin::of(symbol, &walker).within(library.as_deref()),
                library: library.clone(),
            });
            let known = Known { calls: calls.collect(), is_trampoline: named.is_trampoline };
            self.known.insert(target.key(), known);
        }
    }

    /// Names sorted targets, using the names of the run if this is a process of one.
    fn name_all(&self, targets: &[Target]) -> Vec<Named> {
        if let Some(names) = self.past.as_ref().and_then(|past| past.names.as_ref()) {
            return names.name_all(targets);
        }
        target::name_all(targets)
    }

    fn target_of_landmark(&self) -> Option<Target> {
        let (landmark, now) = self.landmark();
        let owners = self.owners(&[landmark], now);
        owners.into_iter().next().map(|owner| Target::of_call((landmark, owner)))
    }
}

/// Returns the path of the landmark's source file, as the line tables spell it.
fn file_of_landmark(landmark: Option<Target>, targets: &[Target], named: &[Named]) -> Arc<str> {
    let landmark = landmark.map(|target| target.key());
    let named = targets.iter().zip(named).find(|(target, _)| Some(target.key()) == landmark);
    let outermost = named.and_then(|(_, named)| named.symbols.last());
    outermost.map_or_else(|| "??".into(), |symbol| symbol.filename.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_landmark_is_found_in_its_own_file() {
        let mut symbolizer = Symbolizer::default();
        symbolizer.prepare(std::iter::empty());
        let walker = symbolizer.walker.unwrap();
        assert!(std::path::Path::new(&*walker).ends_with("src/stack/landmark.rs"), "{walker}");
    }

    #[test]
    fn a_frame_has_the_file_name_of_its_program_or_library() {
        let ours = std::env::current_exe().unwrap();
        let ours = ours.file_name().unwrap().to_string_lossy();
        let mut symbolizer = Symbolizer::default();
        let within = [stopped_here as fn() -> usize as usize + 1, 0x10];
        let known = symbolizer.named(&within, modules::now());
        let libraries: Vec<Option<String>> =
            known.iter().map(|known| known.calls[0].library.as_deref().map(str::to_owned)).collect();
        assert_eq!(libraries, [Some(ours.into_owned()), None]);
    }

    #[test]
    fn an_address_without_a_name_is_a_number() {
        let frames = Symbolizer::default().frames(&[0x10]);
        assert_eq!(frames.len(), 1);
        assert_eq!((&*frames[0].name, &*frames[0].filename, frames[0].line), ("0x10", "??", 0));
    }

    #[test]
    fn the_frame_of_a_full_table_is_named() {
        let frames = Symbolizer::default().frames(&[super::super::super::intern::limits::TABLE_FULL]);
        assert_eq!(frames, [Symbol { name: "stack table full".into(), filename: "??".into(), line: 0 }]);
    }

    #[test]
    fn each_distinct_address_is_named_once_with_shared_texts() {
        let (a, b) = (stopped_here as fn() -> usize as usize + 1, landmark::address());
        let mut symbolizer = Symbolizer::default();
        symbolizer.prepare([(&[a, b, a, 0x10, a, 0x10][..], modules::now())].into_iter());
        assert_eq!(symbolizer.known.len(), 3);
        let before: Vec<*const Call> = symbolizer.known.values().map(|known| known.calls.as_ptr()).collect();
        symbolizer.frames(&[0x10, a, a, b]);
        symbolizer.prepare([(&[b, 0x10][..], modules::now())].into_iter());
        let after: Vec<*const Call> = symbolizer.known.values().map(|known| known.calls.as_ptr()).collect();
        assert_eq!(before, after, "nothing was named again");
        let neighbour = name_addresses as fn(&[usize]) -> Vec<Vec<SourceFrame>> as usize + 1;
        let files = [a, neighbour].map(|address| symbolizer.whole(&[address]).pop().unwrap().filename);
        assert!(files[0].ends_with("symbolize.rs") && Arc::ptr_eq(&files[0], &files[1]), "{files:?}");
    }

    /// When a signal stops a function before its first instruction, one byte before is another function.
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    #[test]
    fn a_frame_that_a_signal_stopped_is_looked_up_where_it_stopped() {
        let trampoline = signal_return();
        let stopped = stopped_here as fn() -> usize as usize;
        let mut symbolizer = Symbolizer::default();
        let behind_handler = symbolizer.whole(&[trampoline, stopped]);
        assert!(behind_handler.last().unwrap().name.ends_with("stopped_here"), "{behind_handler:?}");
        let behind_call = symbolizer.whole(&[landmark::address(), stopped]);
        assert!(!behind_call.last().unwrap().name.ends_with("stopped_here"), "{behind_call:?}");
    }

    /// Returns the code in libc to which handlers return, found by its bytes.
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    fn signal_return() -> usize {
        use object::{Object, ObjectSection};
        let (_, modules) = super::super::super::modules::list();
        let libc = modules.iter().find(|module| module.path.ends_with("libc.so.6")).unwrap();
        let data = std::fs::read(&libc.path).unwrap();
        let text = object::File::parse(&*data).unwrap().section_by_name(".text").map(|text| {
            let code = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
            let at = text.data().unwrap().windows(code.len()).position(|bytes| bytes == code);
            text.address() as usize + at.unwrap()
        });
        libc.bias + text.unwrap()
    }

    #[inline(never)]
    fn stopped_here() -> usize {
        std::hint::black_box(line!() as usize)
    }
}
