//! Children of a process whose threads allocate.

use std::{
    hint::black_box,
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use memreel::recorder::{Context, Recorder, Recording};

use crate::{
    own_process,
    system::n_requests,
    taken::{later_snapshot, live_at},
    threads::{IsOver, churn},
};

const LIMIT: Duration = Duration::from_secs(180);

/// Runs in a child, whose parent has eight other threads.
fn in_child(kept: Vec<u8>) -> bool {
    let address = kept.as_ptr().addr();
    let was_live = live_at(&later_snapshot(), address) == Some(kept.len() as u64);
    drop(kept);
    let own = black_box(vec![1_u8; 999]);
    let snapshot = later_snapshot();
    was_live && live_at(&snapshot, own.as_ptr().addr()) == Some(999)
}

#[test]
fn children_of_eight_threads_find_a_sound_heap() {
    own_process::run(module_path!(), "children_of_eight_threads_find_a_sound_heap", LIMIT, || {
        memreel::record_history(&Recording::all().max_entries(200_000)).unwrap();
        drop(later_snapshot());
        let (is_over, (sender, receiver)) = (AtomicBool::new(false), mpsc::sync_channel(100));
        thread::scope(|scope| {
            let is_over = &is_over;
            let _ends = IsOver(is_over);
            for seed in 1..=8 {
                let sender = sender.clone();
                scope.spawn(move || churn(seed, is_over, &sender));
            }
            scope.spawn(move || while receiver.recv().is_ok() {});
            drop(sender);
            for n in 0..16 {
                // Names take seconds in a build for tests, and each child looks them up anew.
                let context = if n == 7 { Context::All } else { Context::None };
                let history = Recording::all().max_entries(200_000).context(context);
                memreel::record_history(&history.clear_history(true)).unwrap();
                let kept = black_box(vec![1_u8; 8000 + n]);
                // SAFETY: the child takes snapshots and ends; it is waited for once.
                unsafe {
                    let child = libc::fork();
                    if child == 0 {
                        libc::_exit(i32::from(!in_child(kept)));
                    }
                    let mut status = 0;
                    assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                    assert_eq!(status, 0, "child {n}");
                }
            }
        });
        drop(later_snapshot());
    });
}

/// What a process says of its fork at most, by its status.
const MOST_MS: u128 = 200;

/// Makes the first recorders of this process on four threads at once, and forks. Returns how many milliseconds that took.
fn race_and_fork() -> i32 {
    let barrier = Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                barrier.wait();
                Recorder::new()
            });
        }
    });
    memreel::record_history(&Recording::all().context(Context::None)).unwrap();
    let _kept: Vec<Vec<u8>> = (0..100).map(|n| black_box(vec![0; 1000 + n])).collect();
    let begun = Instant::now();
    fork_and_wait();
    i32::try_from(begun.elapsed().as_millis().min(MOST_MS)).unwrap()
}

/// A part that two threads registered at once was held twice, and then the fork waited for itself. `MEMREEL_RACES` is the number
/// of processes.
#[test]
fn recorders_that_race_leave_a_process_that_forks() {
    own_process::run(module_path!(), "recorders_that_race_leave_a_process_that_forks", LIMIT, || {
        let n = std::env::var("MEMREEL_RACES").map_or(60, |n| n.parse().unwrap());
        let mut longest = 0;
        for race in 0..n {
            // SAFETY: this process has no recorder, so the child is one without any; it ends here.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::alarm(30);
                    libc::_exit(race_and_fork());
                }
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                assert!(libc::WIFEXITED(status), "process {race} hangs");
                longest = longest.max(libc::WEXITSTATUS(status));
            }
        }
        println!("{n} processes, the longest fork of one takes {longest} ms (of at most {MOST_MS})");
    });
}

/// What handlers of forks around those of memreel see: how often the forking thread was in the allocator.
static BEFORE: AtomicU64 = AtomicU64::new(0);
static SINCE: AtomicU64 = AtomicU64::new(0);

extern "C" fn counts() {
    BEFORE.store(n_requests(), Ordering::SeqCst);
}

extern "C" fn counted() {
    SINCE.fetch_add(n_requests() - BEFORE.load(Ordering::SeqCst), Ordering::SeqCst);
}

/// Makes a child that ends at once, and waits for it.
fn fork_and_wait() {
    // SAFETY: the child ends at once.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(0);
        }
        assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child);
    }
}

#[test]
fn a_fork_allocates_nothing_in_the_parent() {
    own_process::run(module_path!(), "a_fork_allocates_nothing_in_the_parent", LIMIT, || {
        memreel::record_history(&Recording::all()).unwrap();
        let reels: Vec<_> = (0..50).map(|_| memreel::Reel::builder().build().unwrap()).collect();
        // SAFETY: the functions take no argument and do not unwind. They are called before memreel's, and after them.
        assert_eq!(unsafe { libc::pthread_atfork(Some(counts), Some(counted), None) }, 0);
        (0..10).for_each(|_| fork_and_wait());
        assert_eq!(SINCE.load(Ordering::SeqCst), 0);
        drop(reels);
    });
}

/// A lock of the program, under which another thread allocates.
static THEIRS: AtomicBool = AtomicBool::new(false);

extern "C" fn takes() {
    while THEIRS.swap(true, Ordering::Acquire) {
        thread::yield_now();
    }
}

extern "C" fn gives() {
    THEIRS.store(false, Ordering::Release);
}

/// The handlers were registered before memreel's, so they are called while memreel has its locks.
#[test]
fn a_thread_that_a_forks_handler_waits_for_goes_on() {
    own_process::run(module_path!(), "a_thread_that_a_forks_handler_waits_for_goes_on", LIMIT, || {
        // SAFETY: the functions take no argument and do not unwind.
        assert_eq!(unsafe { libc::pthread_atfork(Some(takes), Some(gives), Some(gives)) }, 0);
        memreel::record_history(&Recording::all().context(Context::None)).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    takes();
                    (0..50).for_each(|n| drop(black_box(vec![1_u8; 100 + n])));
                    gives();
                }
            });
            (0..5).for_each(|_| fork_and_wait());
            is_over.store(true, Ordering::SeqCst);
        });
    });
}
