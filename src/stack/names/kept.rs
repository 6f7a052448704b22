//! Keeps the names that the last snapshot looked up for the next one.

use std::{
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

use super::symbolize::Symbolizer;

/// Null, or a symbolizer that no thread uses.
///
/// A pointer rather than a lock: naming reads files for seconds and allocates, perhaps with the very allocator that is
/// recorded, and a fork may copy the process in the middle of it. Of several threads at once, one uses what is kept,
/// and the others start with nothing.
static KEPT: AtomicPtr<Symbolizer> = AtomicPtr::new(ptr::null_mut());

/// Calls `name` with the symbolizer that the last call used, unless another thread has it.
pub(crate) fn with_kept_names<T>(name: impl FnOnce(&mut Symbolizer) -> T) -> T {
    let kept = KEPT.swap(ptr::null_mut(), Ordering::Acquire);
    let mut symbolizer = if kept.is_null() {
        Box::default()
    } else {
        // SAFETY: `keep` stored a pointer from `Box::into_raw`, and the swap gave it to this thread alone.
        unsafe { Box::from_raw(kept) }
    };
    let named = name(&mut symbolizer);
    keep(symbolizer);
    named
}

/// Keeps the symbolizer that knows more names, and drops the other one.
fn keep(symbolizer: Box<Symbolizer>) {
    let mut better = symbolizer;
    loop {
        let raw = Box::into_raw(better);
        // Relaxed if it fails: nothing is read in that case.
        let empty = KEPT.compare_exchange(ptr::null_mut(), raw, Ordering::Release, Ordering::Relaxed);
        if empty.is_ok() {
            return;
        }
        // SAFETY: made above and not stored.
        let own = unsafe { Box::from_raw(raw) };
        let other = KEPT.swap(ptr::null_mut(), Ordering::Acquire);
        if other.is_null() {
            better = own;
            continue;
        }
        // SAFETY: as in `with_kept_names`.
        let other = unsafe { Box::from_raw(other) };
        better = if other.n_known() > own.n_known() { other } else { own };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_threads_name_at_once() {
        let address = several_threads_name_at_once as fn() as usize + 1;
        let n_known = with_kept_names(|outer| {
            // Simulates another snapshot meanwhile, here on the same thread.
            let inner = with_kept_names(|inner| {
                assert!(!ptr::eq(outer, inner));
                inner.whole(&[address]);
                inner.n_known()
            });
            assert!(inner >= 1);
            inner
        });
        with_kept_names(|kept| assert!(kept.n_known() >= n_known, "the one with names is kept"));
    }
}
