//! Rules are learnt when an address is new, and forgotten when a library has taken another's place.
//!
//! A rule belongs to the module that was loaded when it was learnt. `dlclose`
//! sends no notice, and asking the loader on each capture would cost more than
//! the capture. So the module at an address is compared with the one that was
//! known there whenever an address is new ([`learn`]), and all modules of a stack
//! when the stack is new or its walk ends where none of its thread's ended before
//! ([`recheck`]): a stale rule would lead the walk astray.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::{
    super::modules::{Mapping, find},
    cache::{self, Writer},
    cfi,
    rule::Rule,
};

/// A module that rules were learnt of. Only the holder of the [`Writer`] writes, so
/// the words need no order among them.
struct Known {
    start: AtomicUsize,
    end: AtomicUsize,
    fingerprint: AtomicU64,
}

/// A process with more modules than this on its stacks forgets all rules when it meets
/// one more, and begins again.
const MAX_MODULES: usize = 512;

static KNOWN: [Known; MAX_MODULES] = [const {
    Known { start: AtomicUsize::new(0), end: AtomicUsize::new(0), fingerprint: AtomicU64::new(0) }
}; MAX_MODULES];
static N_KNOWN: AtomicUsize = AtomicUsize::new(0);

/// Reads the rule of a return address on this thread's stack; none where the loader knows no code.
///
/// The rule is cached for all threads, unless another thread is writing to the cache. The
/// lack of a rule is not cached: a library may be loaded there later.
#[cold]
#[inline(never)]
pub(super) fn learn(return_address: usize) -> Option<Rule> {
    let module = find(return_address.wrapping_sub(1))?;
    let rule = cfi::rule_at(&module, return_address);
    if let Some(writer) = Writer::try_take() {
        if !is_known(&module) {
            admit(&writer, &module);
        }
        writer.insert(return_address, rule);
    }
    Some(rule)
}

/// Whether this very build was at this place before.
fn is_known(module: &Mapping) -> bool {
    let n = N_KNOWN.load(Ordering::Relaxed).min(MAX_MODULES);
    let span = module.span();
    let is_there = |known: &&Known| {
        known.start.load(Ordering::Relaxed) == span.start && known.end.load(Ordering::Relaxed) == span.end
    };
    let there = KNOWN[..n].iter().find(is_there);
    there.is_some_and(|known| known.fingerprint.load(Ordering::Relaxed) == module.fingerprint().bits())
}

/// Adds a module to the known ones. If it is where another was, the rules of
/// the other are still in the cache: everything is forgotten.
fn admit(writer: &Writer, module: &Mapping) {
    let n = N_KNOWN.load(Ordering::Relaxed);
    let span = module.span();
    let overlaps = |known: &Known| {
        known.start.load(Ordering::Relaxed) < span.end && span.start < known.end.load(Ordering::Relaxed)
    };
    let n = if n == MAX_MODULES || KNOWN[..n].iter().any(overlaps) {
        writer.flush();
        0
    } else {
        n
    };
    KNOWN[n].start.store(span.start, Ordering::Relaxed);
    KNOWN[n].end.store(span.end, Ordering::Relaxed);
    KNOWN[n].fingerprint.store(module.fingerprint().bits(), Ordering::Relaxed);
    N_KNOWN.store(n + 1, Ordering::Relaxed);
}

/// Whether the rules of a stack's addresses are trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// All modules are the known ones.
    Sound,
    /// Some module was not known, and all rules were forgotten: the stack has to be walked again.
    Forgotten,
    /// Some module was not known, and another thread is writing to the cache.
    Unsettled,
}

/// Compares the modules of all these addresses with the known ones.
#[cold]
pub(super) fn recheck(return_addresses: &[usize]) -> Verdict {
    let before = cache::epoch();
    let mut seen = 0..0;
    for address in return_addresses {
        if seen.contains(address) {
            continue;
        }
        let Some(module) = find(address.wrapping_sub(1)) else { continue };
        seen = module.span();
        if !is_known(&module) {
            let Some(writer) = Writer::try_take() else { return Verdict::Unsettled };
            admit(&writer, &module);
        }
    }
    if cache::epoch() == before { Verdict::Sound } else { Verdict::Forgotten }
}
