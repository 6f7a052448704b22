//! Caches the rules of recent addresses, for all threads, in 64 KiB.
//!
//! An entry is one word, so a reader never sees half of one and needs no lock: 35 bits of the address, 29 of its rule.
//! Another 12 bits of the address follow from the position in the table, so an entry is exact, not a hash. Where all
//! code is aligned, these are the bits above those that are 0. Writing needs the [`Writer`]; a thread that finds it
//! taken does not write.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::{processor::CODE_ALIGN_BITS, rule::Rule};

const SET_BITS: u32 = 12;

/// The first key for which the tag has no room; no program on Linux has code there unless it
/// asks for the address.
const BEYOND: usize = 1 << (SET_BITS + 64 - Rule::BITS);

const N_SETS: usize = 1 << SET_BITS;

/// The newer rule at each position.
static YOUNG: [AtomicU64; N_SETS] = [const { AtomicU64::new(0) }; N_SETS];
/// The older rule at each position, which is read if the newer one belongs to another address.
static OLD: [AtomicU64; N_SETS] = [const { AtomicU64::new(0) }; N_SETS];
static WRITING: AtomicBool = AtomicBool::new(false);
/// Counts how often all rules were forgotten.
static EPOCH: AtomicU32 = AtomicU32::new(0);

/// Returns the bits of an address that differ between addresses of code.
#[inline(always)]
fn key_of(ip: usize) -> usize {
    ip >> CODE_ALIGN_BITS
}

#[inline(always)]
fn place_of(ip: usize) -> usize {
    let key = key_of(ip);
    // With `key >> 12`, this determines the low 12 bits of `key`.
    (key ^ (key >> SET_BITS)) & (N_SETS - 1)
}

/// Returns the bits above the rule in an entry. Never 0 for code, so that an empty entry is not a rule.
#[inline(always)]
fn tag_of(ip: usize) -> u64 {
    (key_of(ip) as u64 >> SET_BITS) << Rule::BITS
}

/// Returns the rule of a return address, if it is the newer one at its position.
#[inline(always)]
pub(super) fn lookup(ip: usize) -> Option<Rule> {
    lookup_in(&YOUNG, ip)
}

/// Returns the rule of a return address, if it is the older one at its position.
pub(super) fn lookup_old(ip: usize) -> Option<Rule> {
    lookup_in(&OLD, ip)
}

#[inline(always)]
fn lookup_in(entries: &[AtomicU64; N_SETS], ip: usize) -> Option<Rule> {
    // If the tags are equal, the rest is the rule. Relaxed: an entry is one word, and nothing else is read because of
    // it. An entry that is about to be forgotten is as good as one that was read before; the epoch reveals it.
    Rule::from_bits(entries[place_of(ip)].load(Ordering::Relaxed) ^ tag_of(ip))
}

/// Returns how often all rules were forgotten; rules that were learnt in an earlier epoch must not be used.
#[inline(always)]
pub(super) fn epoch() -> u32 {
    EPOCH.load(Ordering::Acquire)
}

/// The right to write, one at a time.
pub(super) struct Writer(());

impl Writer {
    /// Takes the right to write, unless another thread has it.
    pub(super) fn try_take() -> Option<Writer> {
        // Relaxed if it fails: nothing is read then.
        let free = WRITING.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        free.is_ok().then_some(Writer(()))
    }

    /// Caches a rule, replacing the older one at its position.
    pub(super) fn insert(&self, ip: usize, rule: Rule) {
        if !(N_SETS..BEYOND).contains(&key_of(ip)) {
            return;
        }
        let place = place_of(ip);
        // Relaxed: as in `lookup_in`; each writer sees what the previous one wrote.
        OLD[place].store(YOUNG[place].load(Ordering::Relaxed), Ordering::Relaxed);
        YOUNG[place].store(tag_of(ip) | rule.bits(), Ordering::Relaxed);
    }

    /// Forgets all rules.
    pub(super) fn flush(&self) {
        // Relaxed: the release of the epoch comes after them. A thread that acquires the new epoch finds no old rule.
        for entry in YOUNG.iter().chain(&OLD) {
            entry.store(0, Ordering::Relaxed);
        }
        EPOCH.fetch_add(1, Ordering::Release);
    }
}

/// Releases the writer in a forked child, where its thread may not exist. Returns whether it was held.
pub(super) fn release_writer() -> bool {
    WRITING.swap(false, Ordering::AcqRel)
}

impl Drop for Writer {
    fn drop(&mut self) {
        WRITING.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{processor::sample, rule::Base},
        *,
    };

    #[test]
    fn two_addresses_share_a_place_and_the_third_replaces_the_first() {
        // No code of this process is at these addresses, so this does not disturb the other tests.
        let at = |i: usize| (0x1000_0000_0000 + (i << (2 * SET_BITS)) + 0x123) << CODE_ALIGN_BITS;
        let rule = |i: usize| sample(Base::Sp, 16 + 16 * i as i64, None);
        let lookup = |ip: usize| lookup(ip).or_else(|| lookup_old(ip));
        assert_eq!(place_of(at(0)), place_of(at(2)));
        let writer = loop {
            if let Some(writer) = Writer::try_take() {
                break writer;
            }
        };
        assert!(Writer::try_take().is_none(), "one at a time");
        for i in 0..3 {
            assert_eq!(lookup(at(i)), None);
            writer.insert(at(i), rule(i));
            assert_eq!(lookup(at(i)), Some(rule(i)));
        }
        assert_eq!(lookup(at(0)), None);
        assert_eq!((lookup(at(1)), lookup(at(2))), (Some(rule(1)), Some(rule(2))));
        let beyond = (BEYOND + 5) << CODE_ALIGN_BITS;
        writer.insert(beyond, rule(1));
        writer.insert(5, rule(1));
        // Nothing is kept for addresses that are not code.
        for ip in [beyond, 5, 0] {
            assert!(lookup(ip).is_none_or(|rule| !rule.is_frame()));
        }
        let before = epoch();
        writer.flush();
        assert_eq!((lookup(at(2)), epoch()), (None, before + 1));
    }
}
