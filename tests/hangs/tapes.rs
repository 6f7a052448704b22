//! Tapes in files, where a mistake costs the process or the file.

use std::{fs, path::Path, thread, time::Duration};

use memreel::{
    Action, Address, BlockState, DeviceId, PoolId, Recovered, Reel, StreamId,
    device::Simulated,
    integrate::{Event, StackId},
    recorder::{Recorder, Recording},
};

use crate::own_process;

/// Sets the size that a file of this process may have.
fn limit_files(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a limit of this process, which runs one test alone.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
}

fn reel(history: Recording) -> Reel {
    Reel::builder().device(Simulated::new(1 << 40)).history(history).build().unwrap()
}

/// A chunk of memory that a thread began before is not continued: a crash would lose what is in it.
#[test]
fn a_tape_that_begins_later_has_every_event_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    let [path, other] = ["run.tape", "other.tape"].map(|name| folder.path().join(name));
    let reel = reel(Recording::all());
    let _before = reel.alloc(700).unwrap();
    let sizes = |path: &std::path::Path| -> Vec<u64> {
        let snapshot = Recovered::read(path).unwrap().snapshot();
        snapshot.device_traces[0].iter().map(|entry| entry.size).collect()
    };
    reel.record_history(&Recording::all().tape(&path));
    let _kept = reel.alloc(800).unwrap();
    assert!(sizes(&path).contains(&800), "{:?}", sizes(&path));
    reel.record_history(&Recording::all().tape(&other));
    let _later = reel.alloc(900).unwrap();
    assert!(sizes(&other).contains(&900), "{:?}", sizes(&other));
    assert!(!sizes(&path).contains(&900), "{:?}", sizes(&path));
}

/// The events from before a tape are not in it, so they are not in its lists of live blocks: a list with the allocation of
/// a block but not its free would have that block for good.
#[test]
fn a_block_that_was_freed_before_a_tape_began_is_not_live_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let recorder = Recorder::new();
    let history = Recording::all().max_entries(2048);
    recorder.record_history(&history);
    let track = recorder.track(DeviceId(0));
    let record = |action, address| {
        let (stream, pool, stack) = (StreamId::DEFAULT, PoolId::DEFAULT, StackId::NONE);
        track.record_unlocked(Event {
            action,
            address: Address(address),
            size_bytes: 512,
            stream,
            pool,
            stack,
        });
    };
    let others = |n: usize| {
        for _ in 0..n {
            record(Action::Alloc, 0x1000);
            record(Action::FreeRequested, 0x1000);
            record(Action::FreeCompleted, 0x1000);
        }
    };
    record(Action::Alloc, 0x10_0000);
    others(400);
    record(Action::FreeRequested, 0x10_0000);
    record(Action::FreeCompleted, 0x10_0000);
    others(300);
    recorder.record_history(&history.tape(&path));
    others(360);
    thread::sleep(Duration::from_millis(200));
    let snapshot = Recovered::read(&path).unwrap().snapshot();
    let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
    let live = blocks.filter(|block| block.state == Some(BlockState::ActiveAllocated)).count();
    assert_eq!(live, 0);
}

/// Returns how many threads of this process keep a tape.
fn n_keepers() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("memreel-tape")).count()
}

/// Allocates and frees so often that a small ring drops most of it.
fn fill(reel: &Reel) {
    (0..40_000).for_each(|_| drop(reel.alloc(700).unwrap()));
}

#[test]
fn a_keeper_begins_with_its_work_and_ends_with_its_file() {
    own_process::run(
        module_path!(),
        "a_keeper_begins_with_its_work_and_ends_with_its_file",
        Duration::from_secs(60),
        || {
            let folder = tempfile::tempdir().unwrap();
            let reel = reel(Recording::all());
            let in_file = |n: u32| {
                let path = folder.path().join(format!("{n}.tape"));
                Recording::all().max_entries(2048).tape(path)
            };
            reel.record_history(&in_file(0));
            drop(reel.alloc(700).unwrap());
            assert_eq!(n_keepers(), 0);
            for n in 1..10 {
                reel.record_history(&in_file(n));
                fill(&reel);
            }
            thread::sleep(Duration::from_millis(300));
            assert_eq!(n_keepers(), 1);
            reel.record_history(&in_file(10).kept_elsewhere());
            fill(&reel);
            thread::sleep(Duration::from_millis(300));
            assert_eq!(n_keepers(), 0);
        },
    );
}

/// How much address space this process has now: the test's own thread has one of those stacks too.
fn address_space_bytes() -> u64 {
    let sizes = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = sizes.split_whitespace().next().unwrap().parse().unwrap();
    // SAFETY: a question to the C library, about no memory.
    pages * u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap()
}

/// Sets how much address space this process may have.
fn limit_memory(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a limit of this process, which runs one test alone.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

/// At first there is no address space for its stack, and enough for everything else.
#[test]
fn a_keeper_that_cannot_begin_begins_later() {
    const STACK_BYTES: u64 = 1 << 34;
    let name = "a_keeper_that_cannot_begin_begins_later";
    let stack = STACK_BYTES.to_string();
    let limit = Duration::from_secs(60);
    let test = || {
        thread::Builder::new().stack_size(1 << 16).spawn(park_for_ever).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let reel = reel(Recording::all().max_entries(2048).tape(folder.path().join("run.tape")));
        limit_memory(address_space_bytes() + STACK_BYTES / 2);
        fill(&reel);
        assert_eq!(n_keepers(), 0);
        limit_memory(libc::RLIM_INFINITY);
        fill(&reel);
        assert_eq!(n_keepers(), 1);
    };
    let variables = [("RUST_MIN_STACK", &*stack)];
    let ended = own_process::output(module_path!(), name, limit, Path::new("."), &variables, test);
    if let Some((status, printed)) = ended {
        assert!(status.success() && printed.contains("1 passed"), "{status}\n{printed}");
    }
}

fn park_for_ever() {
    loop {
        thread::park();
    }
}

/// A second thread would change what the program may do. A child of `fork` has one thread.
#[test]
fn a_process_of_one_thread_stays_one() {
    own_process::run(module_path!(), "a_process_of_one_thread_stays_one", Duration::from_secs(60), || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.tape");
        // SAFETY: the child makes a reel and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let reel = reel(Recording::all().max_entries(2048).tape(&path));
            let kept = reel.alloc(100_000).unwrap();
            fill(&reel);
            let n_tasks = fs::read_dir("/proc/self/task").unwrap().count();
            drop(reel);
            std::mem::forget(kept);
            std::process::exit(i32::try_from(n_tasks).unwrap());
        }
        let mut status = 0;
        // SAFETY: a child of this process.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(libc::WEXITSTATUS(status), 1);
        let recovered = Recovered::read(&path).unwrap();
        assert_eq!(recovered.problems(), [""; 0]);
        let snapshot = recovered.snapshot();
        let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
        let live = blocks.filter(|block| block.state == Some(BlockState::ActiveAllocated));
        assert_eq!(live.map(|block| block.requested_size).collect::<Vec<_>>(), [100_000]);
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
            drop(reel(Recording::all().tape(&path)).alloc(700).unwrap());
            limit_files(1000);
            for _ in 0..2 {
                assert_eq!(reel(Recording::all().tape(&path)).recorder().tape(), None);
            }
            limit_files(libc::RLIM_INFINITY);
            let names: Vec<_> =
                fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(names.len(), 1, "{names:?}");
            assert!(Recovered::read(folder.path().join(&names[0])).unwrap().n_events() > 0);
        },
    );
}

/// Events that a ring has dropped do not reappear when it becomes larger.
#[test]
fn dropped_events_do_not_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let reel = reel(Recording::all().max_entries(1).tape(&path));
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
        reel.record_history(&Recording::all().max_entries(1_000_000).tape(&path));
        let sizes = |snapshot: &memreel::Snapshot| -> Vec<u64> {
            snapshot.device_traces[0].iter().map(|entry| entry.size).collect()
        };
        let recovered = sizes(&Recovered::read(&path).unwrap().snapshot());
        let live = sizes(&reel.snapshot());
        other.thread().unpark();
        assert!(!live.contains(&12_345));
        assert!(!recovered.contains(&12_345), "{} events", recovered.len());
    });
}
