//! Captures addresses of a library that another thread unloads at any moment.
#![forbid(unsafe_code)]

use std::{
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use super::{
    super::{modules, unwind},
    bounce::{bounce_of, compile},
    chain::run,
};
use crate::process::testing::{library::Library, own_process};

/// Return addresses in a library that is no longer loaded remain on stacks as leftovers, and a wrong walk asks for
/// their rules. In a separate process, because a read of unmapped memory ends it.
#[test]
fn a_library_may_be_unloaded_while_its_leftovers_are_looked_up() {
    let name = "a_library_may_be_unloaded_while_its_leftovers_are_looked_up";
    own_process::run(module_path!(), name, Duration::from_secs(120), || {
        let folder = tempfile::tempdir().unwrap();
        load_and_look_up(&compile(folder.path(), "unloaded", 24, 8));
    });
}

fn load_and_look_up(path: &Path) {
    modules::prepare();
    let (is_over, address) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let inside = address.load(Ordering::Relaxed) + 8;
                    unwind::learn(inside);
                    unwind::recheck(&[inside, inside + 4], 0);
                }
            });
        }
        // Through a copy at other addresses, which is loaded and unloaded too.
        scope.spawn(|| {
            let other = path.with_extension("other.so");
            std::fs::copy(path, &other).unwrap();
            let mut seed = 0;
            while !is_over.load(Ordering::Relaxed) {
                let library = Library::open(&other);
                run(1, seed, &[bounce_of(&library)]);
                seed += 1;
            }
        });
        for _ in 0..1500 {
            let library = Library::open(path);
            address.store(bounce_of(&library) as usize, Ordering::Relaxed);
            thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
