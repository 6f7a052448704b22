//! Returns the number of this thread's stack, reusing the thread's last capture where it is unchanged.
#![forbid(unsafe_code)]

use super::{
    super::{intern::StackInterner, method::StackMethod},
    last::Last,
    learn::{self, Verdict},
    processor,
    thread::{WalkAgain, with_last},
};
use memreel_snapshot::words::StackId;

/// Captures this thread's stack and returns its number; none if only the portable walk can capture it.
///
/// The first address is the caller's.
#[inline(never)]
pub(in super::super) fn capture(interner: &StackInterner, method: StackMethod) -> Option<StackId> {
    let start = processor::here();
    with_last(start, method, |last, walk_again| {
        let has_source = interner.has_source();
        if !has_source && let Some(stack) = last.stack_in(interner.number()) {
            return Some(stack);
        }
        let known = interner.find_native(last.words(), last.hash());
        let stack = known.or_else(|| number_new(interner, last, walk_again))?;
        // The number of a full table is looked up again, because each capture is counted.
        if !has_source && interner.is_kept(stack) {
            last.set_stack(interner.number(), stack);
        }
        Some(stack)
    })
}

/// Numbers a stack that is new to the interner.
///
/// A walk by the rules of an unloaded library yields a wrong stack, which looks new. A new stack involves the loader in
/// any case, so the modules on it are checked once more.
#[cold]
#[inline(never)]
fn number_new(interner: &StackInterner, last: &mut Last, walk_again: WalkAgain<'_>) -> Option<StackId> {
    match learn::recheck(last.words(), last.epoch) {
        Verdict::Sound => {}
        Verdict::Unsettled => return None,
        Verdict::Forgotten => {
            if !walk_again(last) {
                return None;
            }
        }
    }
    Some(interner.intern_native(last.words(), last.hash()))
}
