//! Each address to its frames, once, when a snapshot is taken.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{
    super::capture,
    modules,
    target::{self, Key, Named, Target},
    texts::Texts,
    trim,
};

/// One call behind an address. An address has several where calls were inlined.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Symbol {
    /// The function, demangled and without its hash.
    pub(crate) name: Arc<str>,
    /// The full path of its source, `"??"` when unknown.
    pub(crate) filename: Arc<str>,
    /// The line of the call, 0 when unknown.
    pub(crate) line: u32,
}

/// Names addresses and remembers them.
///
/// It locks the map of modules for look-ups alone, and nothing of a recorder.
#[derive(Debug)]
pub(crate) struct Symbolizer {
    known: FxHashMap<Key, Named>,
    texts: Texts,
}

impl Default for Symbolizer {
    fn default() -> Symbolizer {
        modules::refresh();
        Symbolizer { known: FxHashMap::default(), texts: Texts::default() }
    }
}

/// Names addresses that nobody named before; how many frames they have. For measurements.
#[doc(hidden)]
pub fn name_addresses(addresses: &[usize]) -> usize {
    let mut symbolizer = Symbolizer::default();
    symbolizer.prepare(addresses.iter().copied());
    addresses.iter().map(|address| symbolizer.whole(&[*address]).len()).sum()
}

impl Symbolizer {
    /// Names these addresses at once, each distinct one once, by module and rising: far less work than
    /// stack by stack, because a module's files are open only while its addresses are named.
    pub(crate) fn prepare(&mut self, addresses: impl Iterator<Item = usize>) {
        modules::refresh();
        let mut addresses: Vec<usize> = addresses.chain([landmark()]).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let owners = modules::owners(&addresses);
        let targets = addresses.into_iter().zip(owners).map(Target::of_call);
        let unknown = targets.filter(|target| !self.known.contains_key(&target.key()));
        self.learn(unknown.collect());
    }

    /// The frames of a stack, innermost first, without memreel's own at the top.
    ///
    /// Give the stack whole, as it was noted: where libraries shared addresses
    /// one after another, the stack decides which is meant.
    pub(crate) fn frames(&mut self, addresses: &[usize]) -> Vec<Symbol> {
        let all = self.whole(addresses);
        let walker = self.walker();
        all[trim::n_ours(&all, &walker)..].to_vec()
    }

    /// The frames of a stack with memreel's own.
    pub(super) fn whole(&mut self, addresses: &[usize]) -> Vec<Symbol> {
        self.named(addresses).iter().flat_map(|named| named.symbols.iter().cloned()).collect()
    }

    fn named(&mut self, addresses: &[usize]) -> Vec<Named> {
        let owners = modules::owners(addresses);
        let mut targets: Vec<Target> = addresses.iter().copied().zip(owners).map(Target::of_call).collect();
        let mut named = self.all(&targets);
        // A signal interrupts between any two instructions, so the address
        // behind the handler's return is itself the one that was to run.
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

    fn all(&mut self, targets: &[Target]) -> Vec<Named> {
        let known = |symbolizer: &Symbolizer| -> Option<Vec<Named>> {
            targets.iter().map(|target| symbolizer.known.get(&target.key()).cloned()).collect()
        };
        known(self).unwrap_or_else(|| {
            self.learn(targets.to_vec());
            known(self).unwrap_or_default()
        })
    }

    /// The file that the landmark is compiled in.
    fn walker(&mut self) -> Arc<str> {
        let named = self.named(&[landmark()]);
        let outermost = named.first().and_then(|named| named.symbols.last());
        outermost.map_or_else(|| self.texts.share("??"), |symbol| symbol.filename.clone())
    }

    fn learn(&mut self, mut targets: Vec<Target>) {
        targets.retain(|target| !self.known.contains_key(&target.key()));
        targets.sort_unstable_by_key(Target::key);
        targets.dedup();
        for (target, named) in targets.iter().zip(target::name_all(&targets)) {
            let symbols = named.symbols.iter().map(|symbol| Symbol {
                name: self.texts.share(&symbol.name),
                filename: self.texts.share(&symbol.filename),
                line: symbol.line,
            });
            let named = Named { symbols: symbols.collect(), is_trampoline: named.is_trampoline };
            self.known.insert(target.key(), named);
        }
    }
}

/// The address that is looked up to know memreel's own files: one byte in, as if it were called from there.
fn landmark() -> usize {
    capture::landmark as fn() -> &'static str as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_landmark_knows_its_own_file() {
        let walker = Symbolizer::default().walker();
        assert!(std::path::Path::new(&*walker).ends_with("src/stack/capture.rs"), "{walker}");
    }

    #[test]
    fn an_address_without_a_name_is_a_number() {
        let frames = Symbolizer::default().frames(&[0x10]);
        assert_eq!(frames.len(), 1);
        assert_eq!((&*frames[0].name, &*frames[0].filename, frames[0].line), ("0x10", "??", 0));
    }

    #[test]
    fn the_frame_of_a_full_table_is_named() {
        let frames = Symbolizer::default().frames(&[super::super::TABLE_FULL]);
        assert_eq!(frames, [Symbol { name: "stack table full".into(), filename: "??".into(), line: 0 }]);
    }

    #[test]
    fn each_distinct_address_is_named_once_with_shared_texts() {
        let (a, b) = (stopped_here as fn() -> usize as usize + 1, landmark());
        let mut symbolizer = Symbolizer::default();
        symbolizer.prepare([a, b, a, 0x10, a, 0x10].into_iter());
        assert_eq!(symbolizer.known.len(), 3);
        let before: Vec<*const Symbol> =
            symbolizer.known.values().map(|named| named.symbols.as_ptr()).collect();
        symbolizer.frames(&[0x10, a, a, b]);
        symbolizer.prepare([b, 0x10].into_iter());
        let after: Vec<*const Symbol> =
            symbolizer.known.values().map(|named| named.symbols.as_ptr()).collect();
        assert_eq!(before, after, "nothing was named again");
        let neighbour = landmark as fn() -> usize as usize + 1;
        let files = [a, neighbour].map(|address| symbolizer.whole(&[address]).pop().unwrap().filename);
        assert!(files[0].ends_with("symbolize.rs") && Arc::ptr_eq(&files[0], &files[1]), "{files:?}");
    }

    /// A function that a signal stops before its first instruction is not yet in its first line's middle:
    /// one byte before would be another function.
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    #[test]
    fn a_frame_that_a_signal_stopped_is_looked_up_where_it_stopped() {
        let trampoline = signal_return();
        let stopped = stopped_here as fn() -> usize as usize;
        let mut symbolizer = Symbolizer::default();
        let behind_handler = symbolizer.whole(&[trampoline, stopped]);
        assert!(behind_handler.last().unwrap().name.ends_with("stopped_here"), "{behind_handler:?}");
        let behind_call = symbolizer.whole(&[landmark(), stopped]);
        assert!(!behind_call.last().unwrap().name.ends_with("stopped_here"), "{behind_call:?}");
    }

    /// Where handlers return to in libc, found by its bytes.
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    fn signal_return() -> usize {
        use object::{Object, ObjectSection};
        let (_, modules) = super::super::loader::list();
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
