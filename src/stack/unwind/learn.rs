//! Learns the rules of new addresses, and forgets all rules when a library has replaced another.
//!
//! A rule belongs to the module that was loaded when it was learnt. `dlclose` sends no notice, and calling the loader
//! on each capture would cost more than the capture. So the module at an address is compared with the one that was
//! known there whenever an address is new ([`learn`]), and all modules of a stack when the stack is new or its walk
//! ends where no earlier walk of its thread ended ([`recheck`]): a stale rule would lead the walk to wrong frames. If
//! no library was unloaded since the first rule was learnt, none is stale, and only the loader's counter is read.
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
    rule::{Rule, Stop},
};

/// A module from which rules were learnt. Only the holder of the [`Writer`] writes. The fingerprint is written last,
/// with release: a thread that recognises a module by it also sees the epoch that started when the rules of another
/// module there were forgotten.
struct Known {
    start: AtomicUsize,
    end: AtomicUsize,
    fingerprint: AtomicU64,
}

/// The most known modules. A process with more modules on its stacks forgets all rules when it finds another one, and
/// starts again.
const MAX_MODULES: usize = 512;

static KNOWN: [Known; MAX_MODULES] = [const {
    Known { start: AtomicUsize::new(0), end: AtomicUsize::new(0), fingerprint: AtomicU64::new(0) }
}; MAX_MODULES];
static N_KNOWN: AtomicUsize = AtomicUsize::new(0);

/// How many libraries were unloaded before the first rule was learnt; [`UNKNOWN`] if the loader could not be asked
/// then. Stored with release after the epoch: a thread that sees it also sees that earlier rules were forgotten.
static UNLOADED_BEFORE: AtomicU64 = AtomicU64::new(NOT_ASKED);
const UNKNOWN: u64 = u64::MAX;
const NOT_ASKED: u64 = UNKNOWN - 1;

/// How many checks of modules were made since the rules were learnt. Relaxed: it only decides when they are learnt
/// again.
static N_CHECKS: AtomicUsize = AtomicUsize::new(0);

/// The number of checks after which it is cheaper to learn all rules again.
const MOST_CHECKS: usize = 1 << 14;

/// Reads the rule of a return address on this thread's stack; none if the loader knows no code there. While the loader
/// cannot be asked, as during a fork, only the portable walk can go on: the stack would end here, and a moment later
/// nothing would show that it had not.
///
/// The rule is cached for all threads, unless another thread is writing to the cache. The
/// lack of a rule is not cached: a library may be loaded there later.
#[cold]
#[inline(never)]
pub(in super::super) fn learn(return_address: usize) -> Option<Rule> {
    let mut rule = None;
    let is_asked = find(&[return_address.wrapping_sub(1)], &mut |module| {
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
    if is_asked { rule } else { Some(Rule::stop(Stop::Unfit)) }
}

/// Returns whether this very build was already known at this address.
///
/// Relaxed: a thread without the right to write may meet an entry that is being replaced, or not see a new one. Then
/// either the address or the fingerprint is not the module's, unless the same build is at both addresses: the module is
/// added again.
fn is_known(module: &Mapping) -> bool {
    let n = N_KNOWN.load(Ordering::Relaxed).min(MAX_MODULES);
    let span = module.span();
    let is_there = |known: &&Known| {
        known.start.load(Ordering::Relaxed) == span.start && known.end.load(Ordering::Relaxed) == span.end
    };
    let there = KNOWN[..n].iter().find(is_there);
    there.is_some_and(|known| known.fingerprint.load(Ordering::Acquire) == module.fingerprint().bits())
}

/// Adds a module to the known ones. If it is where another one was, the other's rules are still in the cache, so
/// everything is forgotten.
fn admit(writer: &Writer, module: &Mapping) {
    // Relaxed: writers follow each other. Others see an address before its fingerprint, which is stored with release.
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

/// Makes the rules usable in a child of `fork`: if a thread that does not exist there was writing them, they are
/// forgotten.
pub(in super::super) fn after_fork() {
    if cache::release_writer()
        && let Some(writer) = Writer::try_take()
    {
        writer.flush();
        // Relaxed: a child has one thread.
        N_KNOWN.store(0, Ordering::Relaxed);
    }
}

/// Whether the rules for a stack's addresses can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Verdict {
    /// All modules are known.
    Sound,
    /// Some module was not known, and all rules were forgotten: the stack must be walked again.
    Forgotten,
    /// Some module was not known, and another thread is writing to the cache.
    Unsettled,
}

/// Compares the modules of all these addresses with the known ones. `epoch` is that of the walk that found them:
/// another thread may have forgotten its rules since, and may already know the modules.
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

/// Returns whether every rule belongs to a library that is still loaded.
fn none_is_stale(n_unloaded: u64) -> bool {
    UNLOADED_BEFORE.load(Ordering::Acquire) == n_unloaded
}

/// Records how many libraries were unloaded before the first rule is learnt. A later call does nothing, because rules
/// may have been learnt.
pub(in super::super) fn prepare() {
    let n_unloaded = n_unloaded().unwrap_or(UNKNOWN);
    // Relaxed if it fails: nothing follows from it.
    let _ = UNLOADED_BEFORE.compare_exchange(NOT_ASKED, n_unloaded, Ordering::Release, Ordering::Relaxed);
}

/// Forgets all rules, as of `n_unloaded` unloaded libraries.
fn forget(writer: &Writer, n_unloaded: u64) {
    writer.flush();
    // Relaxed: writers follow each other, and the count of checks only decides when to forget again.
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

#[cfg(all(test, not(miri)))]
mod tests {
    use super::{
        super::{super::modules::while_forking, processor},
        *,
    };

    /// A walk that ended here would be confirmed a moment later: all its modules are known.
    #[test]
    fn no_stack_ends_where_the_loader_cannot_be_asked() {
        let ip = processor::here().ip;
        let is_unfit = |_| while_forking(|| learn(ip)).and_then(Rule::why_stop) == Some(Stop::Unfit);
        // A fork of another test may end in between.
        assert!((0..1000).any(is_unfit));
        assert!(learn(ip).is_some_and(|rule| rule.is_frame()));
    }
}
