//! A warmed capture calls neither the allocator nor the threads library nor the loader.
//!
//! The test runs itself again under `LD_PRELOAD`, with a library in front of
//! glibc that counts calls (`fixtures/preload/count.rs`). It needs a process of its own,
//! because a library can be preloaded only when a process starts.
//! std's locks call the kernel directly and would not be counted;
//! `tests/it/stack/locks.rs` checks that the files of a capture name none.
#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![allow(missing_docs)]

use std::{
    env,
    ffi::{CStr, c_char, c_void},
    hint::black_box,
    mem::transmute,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use memreel::{
    DeviceId,
    integrate::{StackMethod, Track, stack_method},
    recorder::{Recorder, Recording},
};

const CHILD: &str = "MEMREEL_PRELOAD_CHILD";
const N_CAPTURES: usize = 1000;

#[test]
fn a_thousand_captures_on_each_of_two_threads_call_nothing() {
    if env::var_os(CHILD).is_some() {
        return in_the_child();
    }
    let library = build();
    for method in [StackMethod::FramePointers, StackMethod::Reuse, StackMethod::Rules] {
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "a_thousand_captures_on_each_of_two_threads_call_nothing", "--nocapture"])
            .env(CHILD, "1")
            .env("LD_PRELOAD", &library)
            .env("MEMREEL_STACK_METHOD", method.name())
            .output()
            .unwrap();
        let text =
            format!("{}{}", String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
        assert!(child.status.success(), "{text}");
        assert!(text.contains("2 threads: 0 calls"), "{text}");
    }
}

/// Builds the counting library, which needs rustc alone.
fn build() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/preload/count.rs");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libcount.so");
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    // The test may run in an emulator, and the compiler outside of it.
    let target = ["--target=aarch64-unknown-linux-gnu", "-Clinker=cc"];
    let built = Command::new(rustc)
        .args(target.iter().filter(|_| cfg!(target_arch = "aarch64")))
        .args(["--edition=2024", "--crate-type=cdylib", "-O", "-o"])
        .args([&library, &source])
        .output()
        .expect("rustc");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}

/// The functions of the preloaded library, which counts the calls of each thread.
#[derive(Clone, Copy)]
struct Counter {
    n_calls: extern "C" fn() -> u64,
    latest: extern "C" fn() -> *const c_char,
}

impl Counter {
    fn find() -> Counter {
        // SAFETY: the names end with a zero byte, and these are the functions' types.
        unsafe {
            let n_calls = libc::dlsym(libc::RTLD_DEFAULT, c"memreel_n_calls".as_ptr());
            let latest = libc::dlsym(libc::RTLD_DEFAULT, c"memreel_latest_call".as_ptr());
            assert!(!n_calls.is_null() && !latest.is_null(), "the library is not preloaded");
            Counter {
                n_calls: transmute::<*mut c_void, extern "C" fn() -> u64>(n_calls),
                latest: transmute::<*mut c_void, extern "C" fn() -> *const c_char>(latest),
            }
        }
    }

    fn latest(self) -> String {
        let name = (self.latest)();
        // SAFETY: a name with a zero byte at its end, of static life.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}

fn in_the_child() {
    let counter = Counter::find();
    let before = (counter.n_calls)();
    drop(black_box(vec![1_u8; 100]));
    assert!((counter.n_calls)() >= before + 2, "malloc and free are counted");
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all());
    let track = recorder.track(DeviceId(0));
    assert_eq!(stack_method().name(), env::var("MEMREEL_STACK_METHOD").unwrap());
    let of_thread = || captures(&track, counter);
    let counts = [thread::scope(|scope| scope.spawn(of_thread).join().unwrap()), of_thread()];
    for (n, latest) in &counts {
        assert_eq!(*n, 0, "the latest was {latest}");
    }
    println!("2 threads: {} calls", counts[0].0 + counts[1].0);
}

/// Returns how many calls captures made on this thread once warm, and the name of the latest.
fn captures(track: &Track, counter: Counter) -> (u64, String) {
    let mut counts = Vec::new();
    // One loop for the warm-up and for the counted captures: other call sites
    // would be other stacks, which are new to the interner. The list is hidden from the
    // compiler, which would make two loops of it.
    for n in black_box(vec![50, N_CAPTURES]) {
        let before = (counter.n_calls)();
        // Different depths, so that captures join the last one, replace its inner frames, and hash them.
        for i in 0..n {
            assert!(deep(track, i % 7), "a stack was captured");
        }
        counts.push((counter.n_calls)() - before);
    }
    // Each thread asks for its stack's bounds at least: the counter counts.
    assert!(counts[0] > 0, "a thread's first captures do call");
    (counts[1], counter.latest())
}

#[inline(never)]
fn deep(track: &Track, depth: usize) -> bool {
    if depth == 0 {
        black_box(track.stack_of_alloc(512)).is_some()
    } else {
        black_box(deep(track, depth - 1))
    }
}
