//! A rule is learnt when an address is met for the first time, and all are
//! forgotten when a library has taken another's place.
//!
//! A rule belongs to the file that was loaded when it was learnt. `dlclose`
//! tells nobody, and asking the loader on each capture would cost more than
//! the capture. So two things are watched: whenever an address is new, its
//! file is compared with the file that was known at that place; and a walk
//! that does not end where this thread's walks end is suspicious ([`suspect`]).

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::{
    cache::Writer,
    cfi,
    loader::Module,
    rule::{Rule, Stop},
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

/// The rule of a return address on this thread's stack.
///
/// It is kept for everybody, unless another thread is just keeping one.
#[cold]
#[inline(never)]
pub(super) fn learn(return_address: usize) -> Rule {
    let Some(module) = Module::of(return_address.wrapping_sub(1)) else {
        return Rule::stop(Stop::Unknown);
    };
    let rule = cfi::rule_at(&module, return_address);
    if let Some(writer) = Writer::try_take() {
        if !is_known(&module) {
            admit(&writer, &module);
        }
        writer.insert(return_address, rule);
    }
    rule
}

/// Whether this very file was at this place before.
fn is_known(module: &Module) -> bool {
    KNOWN[..N_KNOWN.load(Ordering::Relaxed)].iter().any(|known| {
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

/// Told of each walk that ended where none of its thread's ended before.
/// Whether everything was forgotten, so that the walk should be made again.
///
/// A rule of an unloaded library would lead such a walk astray. But coroutines
/// and code without unwind tables end like this always, so only the first
/// such walks, and then ever fewer, are taken as a reason.
#[cold]
pub(super) fn suspect() -> bool {
    static N_SUSPECTS: AtomicU32 = AtomicU32::new(0);
    let n = N_SUSPECTS.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    if !n.is_power_of_two() && n % 4096 != 0 {
        return false;
    }
    let writer = Writer::try_take();
    if let Some(writer) = &writer {
        writer.flush();
    }
    writer.is_some()
}
