//! A rule is learnt when an address is met for the first time, and all are
//! forgotten when a library has taken another's place.
//!
//! A rule belongs to the file that was loaded when it was learnt. `dlclose`
//! tells nobody, and asking the loader on each capture would cost more than
//! the capture. So the file at an address is compared with the file that was
//! known there whenever an address is new ([`learn`]), and all files of a stack
//! when its walk ends where none of its thread's ended before ([`recheck`]): a
//! stale rule would lead it astray.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::{
    cache::{self, Writer},
    cfi,
    loader::Module,
    rule::Rule,
};

/// A file that rules were learnt of. Written by who holds the [`Writer`], so
/// the words need no order among them.
struct Known {
    start: AtomicUsize,
    end: AtomicUsize,
    fingerprint: AtomicU64,
}

/// A process with more files on its stacks forgets all rules when it meets
/// one more, and begins again.
const MOST_MODULES: usize = 512;

static KNOWN: [Known; MOST_MODULES] = [const {
    Known { start: AtomicUsize::new(0), end: AtomicUsize::new(0), fingerprint: AtomicU64::new(0) }
}; MOST_MODULES];
static N_KNOWN: AtomicUsize = AtomicUsize::new(0);

/// The rule of a return address on this thread's stack; none where the loader knows no code.
///
/// It is kept for everybody, unless another thread is just keeping one. That
/// there is none is not kept: a library may be loaded there later.
#[cold]
#[inline(never)]
pub(super) fn learn(return_address: usize) -> Option<Rule> {
    let module = Module::of(return_address.wrapping_sub(1))?;
    let rule = cfi::rule_at(&module, return_address);
    if let Some(writer) = Writer::try_take() {
        if !is_known(&module) {
            admit(&writer, &module);
        }
        writer.insert(return_address, rule);
    }
    Some(rule)
}

/// Whether this very file was at this place before.
fn is_known(module: &Module) -> bool {
    let n = N_KNOWN.load(Ordering::Relaxed).min(MOST_MODULES);
    KNOWN[..n].iter().any(|known| {
        known.start.load(Ordering::Relaxed) == module.start
            && known.end.load(Ordering::Relaxed) == module.end
            && known.fingerprint.load(Ordering::Relaxed) == module.fingerprint()
    })
}

/// Adds a file to the known. If it stands where another stood, the rules of
/// that one are still in the cache: everything is forgotten.
fn admit(writer: &Writer, module: &Module) {
    let n = N_KNOWN.load(Ordering::Relaxed);
    let overlaps = |known: &Known| {
        known.start.load(Ordering::Relaxed) < module.end && module.start < known.end.load(Ordering::Relaxed)
    };
    let n = if n == MOST_MODULES || KNOWN[..n].iter().any(overlaps) {
        writer.flush();
        0
    } else {
        n
    };
    KNOWN[n].start.store(module.start, Ordering::Relaxed);
    KNOWN[n].end.store(module.end, Ordering::Relaxed);
    KNOWN[n].fingerprint.store(module.fingerprint(), Ordering::Relaxed);
    N_KNOWN.store(n + 1, Ordering::Relaxed);
}

/// Whether rules can be relied on for a stack of these addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// All files are those that are known.
    Sound,
    /// Some were not, and everything was forgotten: a walk should be made again.
    Forgotten,
    /// Some were not, and another thread is writing.
    Unsettled,
}

/// Compares the files of all these addresses with what is known of them.
#[cold]
pub(super) fn recheck(return_addresses: &[usize]) -> Verdict {
    let before = cache::epoch();
    let mut seen = 0..0;
    for address in return_addresses {
        if seen.contains(address) {
            continue;
        }
        let Some(module) = Module::of(address.wrapping_sub(1)) else { continue };
        seen = module.start..module.end;
        if !is_known(&module) {
            let Some(writer) = Writer::try_take() else { return Verdict::Unsettled };
            admit(&writer, &module);
        }
    }
    if cache::epoch() == before { Verdict::Sound } else { Verdict::Forgotten }
}
