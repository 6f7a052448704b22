//! Triggers in a child of `fork`, where memreel's thread does not exist.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use memreel::{Reel, device::Simulated, recorder::Recording};

use super::program::{n_files, run, wait_until};

/// Forks, runs `work` in the child, which then exits, and waits for it.
fn in_child(work: impl FnOnce()) {
    // SAFETY: the child runs `work` and exits.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        work();
        std::process::exit(0);
    }
    let mut status = 0;
    // SAFETY: a child of this process, which is waited for once.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0, "the child's status");
}

#[test]
fn a_child_writes_its_own_files() {
    let memreel = "all,dump=exit+oom,file={pid}-{cause}.pickle";
    let Some(ran) = run(module_path!(), "a_child_writes_its_own_files", memreel, || {
        let reel = Reel::builder().device(Simulated::new(1 << 30)).build().unwrap();
        std::mem::forget(reel.clone());
        let _block = reel.alloc(1 << 20).unwrap();
        for _ in 0..3 {
            in_child(|| {
                assert!(reel.alloc(2 << 30).unwrap_err().out_of_memory().unwrap().snapshot.is_some())
            });
        }
        assert_eq!(n_files(), 6);
    }) else {
        return;
    };
    let ran = ran.well();
    assert_eq!(ran.all_sound(), 7, "{:?}", ran.files());
    assert_eq!(ran.files().iter().filter(|name| name.ends_with("-exit.pickle")).count(), 4);
}

/// A signal in a child is served once the thread is there again.
#[test]
fn a_child_has_the_thread_again_when_it_records() {
    let memreel = "all,dump=signal,file={pid}-{n}.pickle";
    let Some(ran) = run(module_path!(), "a_child_has_the_thread_again_when_it_records", memreel, || {
        let reel = Reel::builder().device(Simulated::new(1 << 30)).build().unwrap();
        let _block = reel.alloc(1 << 20).unwrap();
        in_child(|| {
            // SAFETY: memreel handles the signal.
            assert_eq!(unsafe { libc::raise(libc::SIGUSR2) }, 0);
            thread::sleep(Duration::from_millis(50));
            assert_eq!(n_files(), 0, "without the thread");
            reel.record_history(&Recording::all());
            wait_until("the child's snapshot", || n_files() == 1);
        });
        thread::sleep(Duration::from_millis(50));
        assert_eq!(n_files(), 1, "the signal was not the parent's");
    }) else {
        return;
    };
    assert_eq!(ran.well().all_sound(), 1);
}

/// Forks while the thread writes one snapshot after the other, and other threads fail.
#[test]
fn a_child_of_a_busy_process_never_hangs() {
    // Without stacks: each child would read the debug information of this program again.
    let memreel = "all,stacks=none,ring=500,dump=every:1ms+oom+exit+panic,keep=2,file=snap-{pid}-{n}.pickle";
    let Some(ran) = run(module_path!(), "a_child_of_a_busy_process_never_hangs", memreel, || {
        let reel = Reel::builder().device(Simulated::new(1 << 30)).build().unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    drop(reel.alloc(5000).unwrap());
                    drop(reel.alloc(2 << 30));
                }
            });
            for _ in 0..30 {
                in_child(|| {
                    drop(reel.alloc(700).unwrap());
                    reel.record_history(&Recording::all().max_entries(100));
                    drop(std::panic::catch_unwind(|| panic!("in the child")));
                });
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }) else {
        return;
    };
    let ran = ran.well();
    let whole = ran.files().into_iter().filter(|name| name.ends_with(".pickle"));
    assert!(whole.inspect(|name| drop(ran.snapshot(name))).count() > 30, "{:?}", ran.files());
}
