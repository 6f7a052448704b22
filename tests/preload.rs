//! A warmed capture asks nothing of the allocator, the threads library or the loader.
//!
//! The test runs itself again under `LD_PRELOAD`, with a library in front of
//! glibc that counts calls (`fixtures/preload/count.rs`). A process of its own,
//! because a library can be preloaded only when a process starts.
//! std's locks ask the kernel directly and would not show here; that the
//! capture files name none is tested in `tests/it/stacks.rs`.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
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
    recorder::{History, Recorder, StackMethod, Track, stack_method},
};

const CHILD: &str = "MEMREEL_PRELOAD_CHILD";
const N_CAPTURES: usize = 1000;

#[test]
fn a_thousand_captures_on_each_of_two_threads_call_nobody() {
    if env::var_os(CHILD).is_some() {
        return in_the_child();
    }
    let library = build();
    for method in [StackMethod::FramePointers, StackMethod::Reuse, StackMethod::Rules] {
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "a_thousand_captures_on_each_of_two_threads_call_nobody", "--nocapture"])
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

/// The counting library, built anew: Rust is all it needs.
fn build() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/preload/count.rs");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libcount.so");
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let built = Command::new(rustc)
        .args(["--edition=2024", "--crate-type=cdylib", "-O", "-o"])
        .args([&library, &source])
        .output()
        .expect("rustc");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}

/// What the preloaded library knows of this thread.
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
    recorder.record_history(&History::all());
    let track = recorder.track(DeviceId(0));
    assert_eq!(stack_method().name(), env::var("MEMREEL_STACK_METHOD").unwrap());
    let of_thread = || captures(&track, counter);
    let counts = [thread::scope(|scope| scope.spawn(of_thread).join().unwrap()), of_thread()];
    for (n, latest) in &counts {
        assert_eq!(*n, 0, "the latest was {latest}");
    }
    println!("2 threads: {} calls", counts[0].0 + counts[1].0);
}

/// The calls that captures made on this thread, once warm.
fn captures(track: &Track, counter: Counter) -> (u64, String) {
    let mut counts = Vec::new();
    // One loop for the warm-up and for what is counted: another place to call
    // from would be other stacks, which are new to the table. The compiler is
    // not to know the list, or it would make two loops of it.
    for n in black_box(vec![50, N_CAPTURES]) {
        let before = (counter.n_calls)();
        // Depths that differ, so that all but the first of each are joined, and cut, and hashed.
        for i in 0..n {
            assert!(deep(track, i % 7), "a stack was captured");
        }
        counts.push((counter.n_calls)() - before);
    }
    // Asked for the stack's bounds at least, once a thread: what is counted does count.
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
