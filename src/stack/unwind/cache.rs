//! The rules of the addresses met so far, for all threads, in 64 KiB.
//!
//! An entry is one word, so a reader can never see half of one and needs no
//! lock: 35 bits of the address, 29 of its rule. The place in the table tells
//! the other 12 bits of the address, so an entry is exact, not a hash.
//! Who writes holds [`Writer`]; whoever finds it taken does without.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::rule::Rule;

const SET_BITS: u32 = 12;

/// What the tag has no room for; no program on Linux has code there unless it
/// asks for it by address.
const BEYOND: usize = 1 << (SET_BITS + 64 - Rule::BITS);

#[repr(align(16))]
struct Set([AtomicU64; 2]);

static SETS: [Set; 1 << SET_BITS] = [const { Set([const { AtomicU64::new(0) }; 2]) }; 1 << SET_BITS];
static WRITING: AtomicBool = AtomicBool::new(false);
/// Counts how often everything was forgotten.
static EPOCH: AtomicU32 = AtomicU32::new(0);

#[inline(always)]
fn set_of(ip: usize) -> &'static Set {
    // With `ip >> 12` known, this tells the low 12 bits of `ip`.
    &SETS[(ip ^ (ip >> SET_BITS)) & ((1 << SET_BITS) - 1)]
}

/// The rule of a return address, [`Rule::MISSING`] if it is not known.
#[inline(always)]
pub(super) fn lookup(ip: usize) -> Rule {
    let set = set_of(ip);
    let tag = (ip >> SET_BITS) as u64;
    let (first, second) = (set.0[0].load(Ordering::Relaxed), set.0[1].load(Ordering::Relaxed));
    let found = if second >> Rule::BITS == tag { second } else { first };
    if found >> Rule::BITS == tag { Rule::from_bits(found) } else { Rule::MISSING }
}

/// How often everything was forgotten; what was learnt in another epoch than
/// the present one is not to be relied on.
#[inline(always)]
pub(super) fn epoch() -> u32 {
    EPOCH.load(Ordering::Acquire)
}

/// The right to write, one at a time.
pub(super) struct Writer(());

impl Writer {
    /// The right to write, unless somebody has it. After a fork in the middle
    /// of a write the child never gets it: it is slower, not wrong.
    pub(super) fn try_take() -> Option<Writer> {
        let free = WRITING.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        free.is_ok().then_some(Writer(()))
    }

    /// Keeps a rule; the older of the two that stood in its place goes.
    pub(super) fn insert(&self, ip: usize, rule: Rule) {
        if ip >= BEYOND {
            return;
        }
        let entry = ((ip >> SET_BITS) as u64) << Rule::BITS | rule.bits();
        let [first, second] = &set_of(ip).0;
        second.store(first.load(Ordering::Relaxed), Ordering::Relaxed);
        first.store(entry, Ordering::Relaxed);
    }

    /// Forgets everything.
    pub(super) fn flush(&self) {
        for entry in SETS.iter().flat_map(|set| &set.0) {
            entry.store(0, Ordering::Relaxed);
        }
        EPOCH.fetch_add(1, Ordering::Release);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        WRITING.store(false, Ordering::Release);
    }
}
