//! Each address to its frames, once, when a snapshot is taken.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{
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

impl Symbolizer {
    /// Names these addresses at once, each distinct one once, by module and rising: far less work than
    /// stack by stack, because a module's files are open only while its addresses are named.
    pub(crate) fn prepare(&mut self, addresses: impl Iterator<Item = usize>) {
        let mut addresses: Vec<usize> = addresses.chain([landmark()]).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let owners = modules::owners(&addresses);
        self.learn(addresses.into_iter().zip(owners).map(Target::of_call).collect());
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
    trim::landmark as fn() -> &'static str as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_landmark_knows_its_own_file() {
        let walker = Symbolizer::default().walker();
        assert!(std::path::Path::new(&*walker).ends_with("src/stack/trim.rs"), "{walker}");
    }

    #[test]
    fn an_address_without_a_name_is_a_number() {
        let frames = Symbolizer::default().frames(&[0x10]);
        assert_eq!(frames.len(), 1);
        assert_eq!((&*frames[0].name, &*frames[0].filename, frames[0].line), ("0x10", "??", 0));
    }
}
