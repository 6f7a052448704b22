//! Rules are learnt when an address is new, and forgotten when a library has taken another's place.
//!
//! A rule belongs to the module that was loaded when it was learnt. `dlclose`
//! sends no notice, and asking the loader on each capture would cost more than
//! the capture. So the module at an address is compared with the one that was
//! known there whenever an address is new ([`learn`]), and all modules of a stack
//! when the stack is new or its walk ends where none of its thread's ended before
//! ([`recheck`]): a stale rule would lead the walk to wrong frames. While no library was unloaded
//! since the first rule was learnt, none is stale, and the loader's counter alone is asked.
#![forbid(unsafe_code)]

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use super::{
    super::{
        intern::limits::MAX_DEPTH,
        modules::{Mapping, find, n_unloaded},
    },
    cache::{self, Writer},
    cfi,
    rule::Rule,
};

/// A module that rules were learnt of. Only the holder of the [`Writer`] writes. The fingerprint is written last and with a
/// release: a thread that knows a module by it sees the epoch too that began when the rules of another module there were
/// forgotten.
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

/// How many libraries were unloaded before the first rule was learnt; [`UNKNOWN`] if the loader could not be asked then. Stored
/// with release behind the epoch: a thread that sees it sees that the rules before were forgotten.
static UNLOADED_BEFORE: AtomicU64 = AtomicU64::new(NOT_ASKED);
const UNKNOWN: u64 = u64::MAX;
const NOT_ASKED: u64 = UNKNOWN - 1;

/// How many checks of modules were made since the rules were learnt. Relaxed: it decides when they are learnt anew.
static N_CHECKS: AtomicUsize = AtomicUsize::new(0);

/// The checks after which it is cheaper to learn all rules anew.
const MOST_CHECKS: usize = 1 << 14;

/// Reads the rule of a return address on this thread's stack; none where the loader knows no code.
///
/// The rule is cached for all threads, unless another thread is writing to the cache. The
/// lack of a rule is not cached: a library may be loaded there later.
#[cold]
#[inline(never)]
pub(in super::super) fn learn(return_address: usize) -> Option<Rule> {
    let mut rule = None;
    find(&[return_address.wrapping_sub(1)], &mut |module| {
        let found = cfi::rule_at(module, return_address);
        if let Some(writer) = Writer::try_take() {
            if !is_known(module) {
                admit(&writer, module);
            }
            writer.insert(return_address, found);
        }
        rule = Some(found);
        ControlFlow::Break(())
    });
    rule
}

/// Whether this very build was at this place before.
///
/// Relaxed: a thread without the right to write may meet an entry that is being replaced, or not see a new one. Then the place
/// is not the module's or the fingerprint is not, unless the same build is at both places: the module is admitted again.
fn is_known(module: &Mapping) -> bool {
    let n = N_KNOWN.load(Ordering::Relaxed).min(MAX_MODULES);
    let span = module.span();
    let is_there = |known: &&Known| {
        known.start.load(Ordering::Relaxed) == span.start && known.end.load(Ordering::Relaxed) == span.end
    };
    let there = KNOWN[..n].iter().find(is_there);
    there.is_some_and(|known| known.fingerprint.load(Ordering::Acquire) == module.fingerprint().bits())
}

/// Adds a module to the known ones. If it is where another was, the rules of
/// the other are still in the cache: everything is forgotten.
fn admit(writer: &Writer, module: &Mapping) {
    // Relaxed: writers follow each other. Others see a place before its fingerprint, which is stored with release.
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
    KNOWN[n].fingerprint.store(module.fingerprint().bits(), Ordering::Release);
    N_KNOWN.store(n + 1, Ordering::Relaxed);
}

/// Makes the rules usable in a child of `fork`: if a thread that is gone was writing them, they are forgotten.
#[cfg(not(loom))]
pub(in super::super) fn after_fork() {
    if cache::release_writer()
        && let Some(writer) = Writer::try_take()
    {
        writer.flush();
        // Relaxed: a child has one thread.
        N_KNOWN.store(0, Ordering::Relaxed);
    }
}

/// Whether the rules of a stack's addresses are trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Verdict {
    /// All modules are the known ones.
    Sound,
    /// Some module was not known, and all rules were forgotten: the stack has to be walked again.
    Forgotten,
    /// Some module was not known, and another thread is writing to the cache.
    Unsettled,
}

/// Compares the modules of all these addresses with the known ones. `epoch` is that of the walk that found them: another
/// thread may have forgotten its rules since, and know the modules already.
#[cold]
pub(in super::super) fn recheck(return_addresses: &[usize], epoch: u32) -> Verdict {
    let n_unloaded = n_unloaded();
    if n_unloaded.is_some_and(none_is_stale) && cache::epoch() == epoch {
        return Verdict::Sound;
    }
    let verdict = check_modules(return_addresses, epoch);
    if N_CHECKS.fetch_add(1, Ordering::Relaxed) >= MOST_CHECKS
        && let Some((n_unloaded, writer)) = n_unloaded.zip(Writer::try_take())
    {
        forget(&writer, n_unloaded);
    }
    verdict
}

/// Whether every rule is of a library that is still loaded.
fn none_is_stale(n_unloaded: u64) -> bool {
    UNLOADED_BEFORE.load(Ordering::Acquire) == n_unloaded
}

/// Notes what was unloaded before the first rule is learnt. A later call does nothing: rules may have been learnt.
pub(in super::super) fn prepare() {
    let n_unloaded = n_unloaded().unwrap_or(UNKNOWN);
    // Relaxed if it fails: nothing follows from it.
    let _ = UNLOADED_BEFORE.compare_exchange(NOT_ASKED, n_unloaded, Ordering::Release, Ordering::Relaxed);
}

/// Forgets all rules, when so many libraries had been unloaded.
fn forget(writer: &Writer, n_unloaded: u64) {
    writer.flush();
    // Relaxed: writers follow each other, and the count of checks decides nothing but when to forget again.
    N_KNOWN.store(0, Ordering::Relaxed);
    N_CHECKS.store(0, Ordering::Relaxed);
    UNLOADED_BEFORE.store(n_unloaded, Ordering::Release);
}

fn check_modules(return_addresses: &[usize], epoch: u32) -> Verdict {
    let mut calls = [0; MAX_DEPTH];
    let n = return_addresses.len().min(MAX_DEPTH);
    for (call, address) in calls.iter_mut().zip(return_addresses) {
        *call = address.wrapping_sub(1);
    }
    let mut is_settled = true;
    let is_asked = find(&calls[..n], &mut |module| {
        if is_known(module) {
            return ControlFlow::Continue(());
        }
        match Writer::try_take() {
            Some(writer) => admit(&writer, module),
            None => is_settled = false,
        }
        if is_settled { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    match cache::epoch() == epoch {
        _ if !(is_asked && is_settled) => Verdict::Unsettled,
        true => Verdict::Sound,
        false => Verdict::Forgotten,
    }
}
