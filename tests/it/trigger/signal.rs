//! Snapshots at a signal, whatever the interrupted thread was doing.

use std::{
    ffi::c_int,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use memreel::{
    Reel,
    device::Simulated,
    recorder::Recording,
    trigger::{Signal, Triggers},
};

use super::program::{files, n_files, run, wait_until};

static N_HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn of_the_program(_: c_int) {
    N_HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Sends a signal to the calling thread.
fn raise(signal: c_int) {
    // SAFETY: a signal for which there is a handler.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

#[test]
fn a_signal_writes_a_snapshot_and_the_programs_handler_is_called() {
    let name = "a_signal_writes_a_snapshot_and_the_programs_handler_is_called";
    let memreel = "all,dump=signal,file={cause}-{n}.pickle";
    let Some(ran) = run(module_path!(), name, memreel, || {
        // SAFETY: the handler takes the number of the signal.
        unsafe { libc::signal(libc::SIGUSR2, of_the_program as extern "C" fn(c_int) as libc::sighandler_t) };
        let _block = memreel::alloc(1 << 20).unwrap();
        raise(libc::SIGUSR2);
        assert_eq!(N_HANDLED.load(Ordering::Relaxed), 1);
        wait_until("the snapshot", || n_files() == 1);
        raise(libc::SIGUSR2);
        wait_until("another", || n_files() == 2);
        assert_eq!(N_HANDLED.load(Ordering::Relaxed), 2);
    }) else {
        return;
    };
    let ran = ran.well();
    assert_eq!(ran.files(), ["signal-0.pickle", "signal-1.pickle"]);
    assert_eq!(ran.all_sound(), 2);
}

#[test]
fn each_set_has_its_signals() {
    let Some(ran) = run(module_path!(), "each_set_has_its_signals", "", || {
        memreel::record_history(&Recording::all()).unwrap();
        let real_time = Signal::real_time(5).unwrap();
        memreel::dump_on(&Triggers::to("one-{n}.pickle").signal(Signal::USR1)).unwrap();
        memreel::dump_on(&Triggers::to("two-{n}.pickle").signal(real_time)).unwrap();
        let _block = memreel::alloc(1 << 20).unwrap();
        raise(libc::SIGUSR1);
        wait_until("the first", || n_files() == 1);
        raise(real_time.number());
        wait_until("the second", || n_files() == 2);
    }) else {
        return;
    };
    assert_eq!(ran.well().files(), ["one-0.pickle", "two-0.pickle"]);
}

/// The signal interrupts a thread at any moment: while it has the allocator's lock, those of the recorder, or writes a
/// snapshot itself.
#[test]
fn a_signal_may_interrupt_anything() {
    let name = "a_signal_may_interrupt_anything";
    let Some(ran) =
        run(module_path!(), name, "all,ring=2000,dump=signal,keep=3,file=snap-{n}.pickle", || {
            let reel = Reel::builder().device(Simulated::new(1 << 30)).build().unwrap();
            // SAFETY: the thread of this function.
            let target = unsafe { libc::pthread_self() };
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let mut n_spins = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        // SAFETY: the target waits for this thread at the end of the scope.
                        unsafe { libc::pthread_kill(target, libc::SIGUSR2) };
                        n_spins = (n_spins + 137) % 4000;
                        (0..n_spins).for_each(|_| std::hint::spin_loop());
                    }
                });
                for round in 0..30 {
                    for n in 0..200 {
                        let _scope = reel.scope("work");
                        let _block = reel.alloc(512 * (n % 7 + 1)).unwrap();
                    }
                    drop(reel.snapshot());
                    reel.record_history(&Recording::all().max_entries(1000 + round));
                }
                is_over.store(true, Ordering::Relaxed);
            });
            wait_until("a snapshot", || n_files() > 0);
            // The last one may be in progress: at the end of the process it would be left as a temporary file.
            wait_until("its end", || {
                files(std::path::Path::new(".")).iter().all(|name| name.ends_with(".pickle"))
            });
        })
    else {
        return;
    };
    let ran = ran.well();
    assert!((1..=3).contains(&ran.all_sound()), "{:?}", ran.files());
}

#[test]
fn snapshots_of_64_threads_that_allocate_are_valid() {
    let name = "snapshots_of_64_threads_that_allocate_are_valid";
    let memreel = "all,ring=20000,dump=signal+every:20ms+exit,keep=4,file=snap-{n}.pickle";
    let Some(ran) = run(module_path!(), name, memreel, || {
        let reel = Reel::builder().device(Simulated::new(1 << 30)).build().unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for n in 0..64 {
                let (reel, is_over) = (&reel, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        drop(reel.alloc(512 + n * 100).unwrap());
                    }
                });
            }
            for _ in 0..10 {
                raise(libc::SIGUSR2);
                thread::sleep(Duration::from_millis(30));
            }
            is_over.store(true, Ordering::Relaxed);
        });
        wait_until("snapshots", || n_files() > 2);
    }) else {
        return;
    };
    let ran = ran.well();
    assert!(ran.all_sound() <= 4, "{:?}", ran.files());
}
