//! Tapes in files, where a mistake costs the process or the file.

use std::{
    fs,
    os::unix::thread::JoinHandleExt,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use memreel::{Recovered, Reel, device::Simulated, recorder::History};

use crate::own_process;

/// Sets the size that a file of this process may have.
fn limit_files(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a limit of this process, which runs one test alone.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
}

fn reel(history: History) -> Reel {
    Reel::builder().device(Simulated::new(1 << 40)).history(history).build().unwrap()
}

/// A chunk of memory that a thread began before is not continued: a crash would lose what is in it.
#[test]
fn a_tape_that_begins_later_has_every_event_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    let [path, other] = ["run.tape", "other.tape"].map(|name| folder.path().join(name));
    let reel = reel(History::all());
    let _before = reel.alloc(700).unwrap();
    let sizes = |path: &std::path::Path| -> Vec<u64> {
        let snapshot = Recovered::read(path).unwrap().snapshot();
        snapshot.device_traces[0].iter().map(|entry| entry.size).collect()
    };
    reel.record_history(&History::all().tape(&path));
    let _kept = reel.alloc(800).unwrap();
    assert!(sizes(&path).contains(&800), "{:?}", sizes(&path));
    reel.record_history(&History::all().tape(&other));
    let _later = reel.alloc(900).unwrap();
    assert!(sizes(&other).contains(&900), "{:?}", sizes(&other));
    assert!(!sizes(&path).contains(&900), "{:?}", sizes(&path));
}

#[test]
fn a_keeper_ends_with_its_file() {
    own_process::run(module_path!(), "a_keeper_ends_with_its_file", Duration::from_secs(60), || {
        let folder = tempfile::tempdir().unwrap();
        let reel = reel(History::all());
        for n in 0..20 {
            reel.record_history(&History::all().tape(folder.path().join(format!("{n}.tape"))));
            drop(reel.alloc(700).unwrap());
        }
        thread::sleep(Duration::from_millis(300));
        let names = fs::read_dir("/proc/self/task")
            .unwrap()
            .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
        assert_eq!(names.filter(|name| name.starts_with("memreel-tape")).count(), 1);
    });
}

/// The tape of a crashed run survives runs that cannot have one.
#[test]
fn a_tape_that_cannot_begin_leaves_no_file() {
    own_process::run(
        module_path!(),
        "a_tape_that_cannot_begin_leaves_no_file",
        Duration::from_secs(60),
        || {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("run.tape");
            drop(reel(History::all().tape(&path)).alloc(700).unwrap());
            limit_files(1000);
            for _ in 0..2 {
                assert_eq!(reel(History::all().tape(&path)).recorder().tape(), None);
            }
            limit_files(libc::RLIM_INFINITY);
            let names: Vec<_> =
                fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(names.len(), 1, "{names:?}");
            assert!(Recovered::read(folder.path().join(&names[0])).unwrap().n_events() > 0);
        },
    );
}

/// A file system in memory gives up reserving space at a signal.
#[test]
fn a_signal_does_not_end_a_tape() {
    own_process::run(module_path!(), "a_signal_does_not_end_a_tape", Duration::from_secs(60), || {
        extern "C" fn nothing(_: libc::c_int) {}
        let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return };
        // SAFETY: the handler does nothing.
        unsafe { libc::signal(libc::SIGUSR1, nothing as extern "C" fn(libc::c_int) as libc::sighandler_t) };
        static IS_DONE: AtomicBool = AtomicBool::new(false);
        let path = folder.path().join("run.tape");
        let writer = thread::spawn(move || {
            let reel = reel(History::all().tape(&path));
            (0..100_000).for_each(|_| drop(reel.alloc(700).unwrap()));
            let problems = Recovered::read(&path).unwrap().problems().concat();
            IS_DONE.store(true, Ordering::Release);
            problems
        });
        let to = writer.as_pthread_t();
        while !IS_DONE.load(Ordering::Acquire) {
            // SAFETY: the thread is not joined yet.
            unsafe { libc::pthread_kill(to, libc::SIGUSR1) };
            thread::sleep(Duration::from_micros(20));
        }
        assert_eq!(writer.join().unwrap(), "");
    });
}

/// Notes of lists that are no longer in force do not stay: a program may run for months.
#[test]
fn lists_of_live_blocks_do_not_make_a_tape_longer_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let reel = reel(History::all().max_entries(1).tape(&path));
    let _kept: Vec<_> = (0..12_000).map(|_| reel.alloc(512).unwrap()).collect();
    let n_notes = || {
        let slots = fs::read(&path).unwrap().split_off(4096);
        slots.chunks(128 + (32 << 10)).filter(|slot| slot[0] == 3).count()
    };
    let before = n_notes();
    for _ in 0..400 {
        (0..700).for_each(|_| drop(reel.alloc(700).unwrap()));
        thread::sleep(Duration::from_millis(5));
    }
    assert!(n_notes() <= before + 1, "{} instead of {before} slots", n_notes());
    assert!(Recovered::read(&path).unwrap().n_events() > 0);
}

/// Events that a ring has dropped do not reappear when it becomes larger.
#[test]
fn dropped_events_do_not_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let reel = reel(History::all().max_entries(1).tape(&path));
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            drop(reel.alloc(12_345).unwrap());
            thread::park();
        });
        thread::sleep(Duration::from_millis(50));
        for _ in 0..20 {
            (0..2000).for_each(|_| drop(reel.alloc(700).unwrap()));
            thread::sleep(Duration::from_millis(10));
        }
        reel.record_history(&History::all().max_entries(1_000_000).tape(&path));
        let sizes = |snapshot: &memreel::Snapshot| -> Vec<u64> {
            snapshot.device_traces[0].iter().map(|entry| entry.size).collect()
        };
        let recovered = sizes(&Recovered::read(&path).unwrap().snapshot());
        let live = sizes(&reel.snapshot());
        is_done.store(true, Ordering::Relaxed);
        other.thread().unpark();
        assert!(!live.contains(&12_345));
        assert!(!recovered.contains(&12_345), "{} events", recovered.len());
    });
}
