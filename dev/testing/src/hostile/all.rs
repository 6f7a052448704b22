//! Checks of many files, on all processors.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Checks all items, on all processors; `faults` returns what is wrong with one.
pub fn check_all<T: Sync>(items: &[T], faults: impl Fn(&T) -> Vec<String> + Sync) {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|threads| {
        for _ in 0..thread::available_parallelism().map_or(2, |n| n.get()) {
            threads.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = faults(item);
                    failures.lock().unwrap().extend(found);
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
