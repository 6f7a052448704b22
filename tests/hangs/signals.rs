//! A signal handler that allocates and captures, at any moment of memreel's own work.
//!
//! The host's allocator cannot be entered again inside itself, so this program's marks when it is entered (`host.rs`), and
//! the handler returns then. Everything else it may interrupt.

use std::{
    ffi::c_int,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use memreel::{
    Action, Address, DeviceId, PoolId, Reel, StreamId,
    integrate::{Event, StackId, Track, name_addresses},
    ledger::Ledger,
    recorder::Recording,
};

use crate::{host, own_process, sound::assert_sound};

/// What the handler uses: a track of the interrupted recorder, and a reel of its own.
static TRACK: OnceLock<Track> = OnceLock::new();
static OWN: OnceLock<Reel> = OnceLock::new();
static N_HANDLED: AtomicU64 = AtomicU64::new(0);
static N_CAPTURED: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_: c_int) {
    let (Some(track), Some(own)) = (TRACK.get(), OWN.get()) else { return };
    if host::is_inside() {
        return;
    }
    let n = N_HANDLED.fetch_add(1, Ordering::Relaxed);
    let stack = track.stack_of_alloc(512);
    N_CAPTURED.fetch_add(u64::from(stack != StackId::NONE), Ordering::Relaxed);
    let event = |action| Event {
        action,
        address: Address(0x5000_0000_0000 + n * 512),
        size_bytes: 512,
        stream: StreamId::DEFAULT,
        pool: PoolId::DEFAULT,
        stack,
    };
    track.record_unlocked(event(Action::Alloc));
    track.record_unlocked(event(Action::FreeRequested));
    track.record_unlocked(event(Action::FreeCompleted));
    drop(own.alloc(512 + n % 1000).unwrap());
}

#[test]
fn a_handler_may_interrupt_anything() {
    own_process::run(module_path!(), "a_handler_may_interrupt_anything", Duration::from_secs(120), || {
        let reel = Reel::builder().history(Recording::all().max_entries(2000)).build().unwrap();
        // A device of its own for the handler's events, as for every source without a lock.
        TRACK.set(reel.recorder().track(DeviceId(1))).unwrap();
        OWN.set(Reel::builder().history(Recording::all().max_entries(2000)).build().unwrap()).unwrap();
        // The first call on a thread asks the system for the stack's bounds, which is not for handlers.
        drop((reel.alloc(1), OWN.get().unwrap().alloc(1)));
        let ledger = reel.recorder().ledger(DeviceId(2));
        // SAFETY: the handler takes the number of the signal.
        unsafe { libc::signal(libc::SIGUSR1, handler as extern "C" fn(c_int) as libc::sighandler_t) };
        // SAFETY: the thread of this function.
        let target = unsafe { libc::pthread_self() };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut n_spins = 0;
                while !is_over.load(Ordering::Relaxed) {
                    // SAFETY: the target waits for this thread at the end of the scope.
                    unsafe { libc::pthread_kill(target, libc::SIGUSR1) };
                    n_spins = (n_spins + 137) % 4000;
                    (0..n_spins).for_each(|_| std::hint::spin_loop());
                }
            });
            work(&reel, &ledger);
            // On a busy machine the other thread comes to few signals a round.
            while N_HANDLED.load(Ordering::Relaxed) <= 1000 || N_CAPTURED.load(Ordering::Relaxed) <= 300 {
                work(&reel, &ledger);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let (n, n_captured) = (N_HANDLED.load(Ordering::Relaxed), N_CAPTURED.load(Ordering::Relaxed));
        println!("{n} signals handled, {n_captured} with a stack");
        assert!(n_captured < n, "some interrupted the recorder's own work");
        assert_sound(&reel.snapshot());
    });
}

/// Every kind of work, again and again.
fn work(reel: &Reel, ledger: &Ledger) {
    for round in 0..60_u64 {
        for n in 0..200 {
            let block = reel.alloc(512 * (n % 7 + 1)).unwrap();
            let _scope = reel.scope(["forward", "backward"][(n % 2) as usize]);
            block.annotate("block");
            let at = Address(0x6000_0000_0000 + n * 4096);
            ledger.alloc(at, 512, StreamId::DEFAULT).unwrap();
            ledger.free(at).unwrap();
        }
        let places = name_addresses(&[work as fn(&Reel, &Ledger) as usize + 1 + round as usize]);
        assert_eq!(places.len(), 1);
        if round % 15 == 0 {
            assert!(!reel.snapshot().device_traces[0].is_empty());
            reel.record_history(&Recording::all().max_entries(1000 + round as usize));
        }
        let _ = (reel.recorder().stack_counts(), reel.recorder().n_events(DeviceId(0)));
    }
}
