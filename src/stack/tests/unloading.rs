//! Addresses of a library that another thread unloads at any moment.
#![forbid(unsafe_code)]

use std::{
    env,
    ffi::OsString,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use super::{
    super::{modules, unwind},
    bounce::{bounce_of, compile},
    chain::run,
};
use crate::library::Library;

const LIBRARY: &str = "MEMREEL_TEST_UNLOADED";
const TEST: &str = "stack::tests::unloading::a_library_may_be_unloaded_while_its_leftovers_are_looked_up";

/// Return addresses in a library that is no longer loaded remain on stacks as leftovers, and a walk that went astray
/// asks for their rules. In a process of its own, because reading unmapped memory would end it.
#[test]
fn a_library_may_be_unloaded_while_its_leftovers_are_looked_up() {
    if let Some(library) = env::var_os(LIBRARY) {
        return load_and_look_up(library.as_ref());
    }
    let folder = tempfile::tempdir().unwrap();
    let library: OsString = compile(folder.path(), "unloaded", 24, 8).into();
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", TEST, "--test-threads=1"])
        .env(LIBRARY, library)
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(120);
    while child.try_wait().unwrap().is_none() && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
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
                    unwind::recheck(&[inside, inside + 4]);
                }
            });
        }
        // Through a copy of its own at other addresses, which is loaded and unloaded too.
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
