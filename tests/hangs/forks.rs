//! Children of `fork`, taken while other threads are in the middle of everything.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use memreel::{
    Action, Address, Allocation, BlockState, DeviceId, Recovered, Reel, Snapshot, StreamId,
    device::{Host, Simulated},
    integrate::name_addresses,
    ledger::Ledger,
    recorder::Recording,
    snapshot::{Dialect, TraceEntry, collect},
};

use crate::{own_process, sound::assert_sound};

/// How a child ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Sound,
    Failed(i32),
    Hung,
}

/// Forks, runs `work` in the child, and waits for it.
fn in_child(work: impl FnOnce()) -> End {
    // SAFETY: the child runs `work` and leaves without destructors of this process.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let is_sound = catch_unwind(AssertUnwindSafe(work)).is_ok();
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!is_sound)) }
    }
    let (end, mut status) = (Instant::now() + Duration::from_secs(20), 0);
    // SAFETY: a child of this process, which is waited for once.
    while unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } == 0 {
        if Instant::now() > end {
            // SAFETY: as above.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, &raw mut status, 0);
            }
            return End::Hung;
        }
        thread::sleep(Duration::from_micros(200));
    }
    if status == 0 { End::Sound } else { End::Failed(status) }
}

/// The child records in memory, and the file remains the parent's.
#[test]
fn a_child_leaves_the_tape_to_its_parent() {
    own_process::run(
        module_path!(),
        "a_child_leaves_the_tape_to_its_parent",
        Duration::from_secs(60),
        || {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("run.tape");
            let history = Recording::all().max_entries(5000).tape(&path);
            let reel = Reel::builder().device(Simulated::new(1 << 40)).history(history).build().unwrap();
            (0..200).for_each(|_| drop(reel.alloc(700).unwrap()));
            let end = in_child(|| {
                assert_eq!(reel.recorder().tape(), None);
                (0..9000).for_each(|_| drop(reel.alloc(900).unwrap()));
                let _scope = reel.scope("of the child");
                let kept = reel.alloc(1000).unwrap();
                assert_sound(&reel.snapshot());
                drop(kept);
            });
            assert_eq!(end, End::Sound);
            let kept = reel.alloc(800).unwrap();
            let recovered = Recovered::read(&path).unwrap();
            assert_eq!(recovered.problems(), [""; 0]);
            let snapshot = recovered.snapshot();
            let sizes: Vec<u64> = snapshot.device_traces[0].iter().map(|entry| entry.size).collect();
            assert!(sizes.ends_with(&[700, 800]) && !sizes.contains(&900), "{sizes:?}");
            assert_sound(&snapshot);
            drop(kept);
        },
    );
}

/// The tape has lists of live blocks and dropped chunks at the fork, which are the parent's.
#[test]
fn a_child_frees_nothing_in_its_parents_tape() {
    own_process::run(
        module_path!(),
        "a_child_frees_nothing_in_its_parents_tape",
        Duration::from_secs(60),
        || {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("run.tape");
            let reel = Reel::builder().device(Simulated::new(1 << 40)).build().unwrap();
            let early = reel.alloc(5000).unwrap();
            reel.record_history(&Recording::all().max_entries(2000).tape(&path));
            (0..5000).for_each(|_| drop(reel.alloc(700).unwrap()));
            let end = in_child(|| {
                (0..9000).for_each(|_| drop(reel.alloc(900).unwrap()));
                assert_sound(&reel.snapshot());
            });
            assert_eq!(end, End::Sound);
            let recovered = Recovered::read(&path).unwrap();
            assert_eq!(recovered.problems(), [""; 0]);
            let snapshot = recovered.snapshot();
            assert!(snapshot.device_traces[0].iter().filter(|entry| entry.size == 700).count() >= 2000);
            let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
            let live = blocks.filter(|block| block.state == Some(BlockState::ActiveAllocated)).count();
            assert_eq!(live, 1, "the block from before the tape");
            assert_sound(&snapshot);
            drop(early);
        },
    );
}

/// What the child's events refer to is not written over what the parent's do.
#[test]
fn a_child_writes_no_notes_into_its_parents_tape() {
    own_process::run(
        module_path!(),
        "a_child_writes_no_notes_into_its_parents_tape",
        Duration::from_secs(60),
        || {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("run.tape");
            let history = Recording::all().tape(&path);
            let reel = Reel::builder().device(Simulated::new(1 << 40)).history(history).build().unwrap();
            let _first = reel.alloc(700).unwrap();
            let end = thread::scope(|scope| {
                let child = scope.spawn(|| {
                    in_child(|| {
                        thread::sleep(Duration::from_millis(500));
                        for n in 0..20 {
                            let _scope = reel.scope(&format!("scope {n} of the child"));
                            drop(reel.alloc(900).unwrap());
                        }
                    })
                });
                thread::sleep(Duration::from_millis(200));
                let _scope = reel.scope("parent");
                drop(reel.alloc(800).unwrap());
                child.join().unwrap()
            });
            assert_eq!(end, End::Sound);
            let recovered = Recovered::read(&path).unwrap();
            assert_eq!(recovered.problems(), [""; 0]);
            let snapshot = recovered.snapshot();
            let is_parents = |entry: &&TraceEntry| snapshot.user_metadata(entry) == "parent";
            assert!(snapshot.device_traces[0].iter().filter(is_parents).count() >= 2);
        },
    );
}

/// A file that cannot grow: recording goes on in memory, and a crash loses that part alone.
#[test]
fn a_full_disk_ends_the_tape_and_not_the_recording() {
    own_process::run(
        module_path!(),
        "a_full_disk_ends_the_tape_and_not_the_recording",
        Duration::from_secs(60),
        || {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("run.tape");
            let limit = libc::rlimit { rlim_cur: 3 << 20, rlim_max: 3 << 20 };
            // SAFETY: a limit of this process, which runs this test alone.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
            let reel = Reel::builder()
                .device(Simulated::new(1 << 40))
                .history(Recording::all().tape(&path))
                .build()
                .unwrap();
            let n = 50_000;
            (0..n).for_each(|_| drop(reel.alloc(700).unwrap()));
            assert_eq!(reel.recorder().n_events(DeviceId(0)), 3 * n + 1);
            let recovered = Recovered::read(&path).unwrap();
            let problems = recovered.problems().concat();
            assert!(problems.contains("could not grow"), "{problems}");
            assert!(recovered.n_events() > 30_000, "{}", recovered.n_events());
            assert_sound(&recovered.snapshot());
        },
    );
}

fn is_live(snapshot: &Snapshot, address: Address) -> bool {
    let mut blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
    blocks.any(|block| block.address == address && block.state == Some(BlockState::ActiveAllocated))
}

/// Uses everything once, as the only thread of a child.
fn use_everything(reel: &Reel, ledger: &Ledger, kept: Option<Allocation>, is_naming: bool) {
    drop(reel.alloc(5000).unwrap());
    drop(reel.allocator(1).unwrap().alloc(3 << 20, StreamId::DEFAULT).unwrap());
    drop(memreel::alloc(5000).unwrap());
    let _scope = reel.scope("in the child");
    ledger.alloc(Address(0x7000), 512, StreamId::DEFAULT).unwrap();
    ledger.free(Address(0x7000)).unwrap();
    let kept = kept.unwrap();
    if is_naming {
        let snapshot = reel.snapshot();
        assert_sound(&snapshot);
        assert!(is_live(&snapshot, kept.address()), "what was live remains live");
        let of_ledger = collect(reel.recorder(), [ledger], Dialect::default());
        assert!(of_ledger.segments.iter().all(|segment| segment.address != Address(0x7000)));
        let within = use_everything as fn(&Reel, &Ledger, Option<Allocation>, bool) as usize + 1;
        assert_eq!(name_addresses(&[within]).len(), 1);
    }
    drop(kept);
    reel.record_history(&Recording::all().max_entries(100));
    reel.empty_cache().unwrap();
    drop(Reel::builder().history(Recording::all()).build().unwrap().alloc(1000).unwrap());
    let theirs = reel.clone();
    thread::spawn(move || drop(theirs.alloc(700).unwrap())).join().unwrap();
}

#[test]
fn a_child_of_a_busy_process_never_hangs() {
    own_process::run(
        module_path!(),
        "a_child_of_a_busy_process_never_hangs",
        Duration::from_secs(300),
        || {
            let history = || Recording::all().max_entries(1500);
            let reel = Reel::builder().device(Host::new()).device(Simulated::new(1 << 40)).history(history());
            let reel = reel.build().unwrap();
            memreel::record_history(&history()).unwrap();
            let ledger = reel.recorder().ledger(DeviceId(2));
            let is_over = AtomicBool::new(false);
            let again = |work: &dyn Fn(u64)| {
                let mut n = 0;
                while !is_over.load(Ordering::Relaxed) {
                    work(n);
                    n += 1;
                }
            };
            let mut ends = Vec::new();
            thread::scope(|scope| {
                for i in 0..2 {
                    let (reel, again) = (&reel, &again);
                    scope.spawn(move || {
                        again(&|n| {
                            drop(reel.alloc(1000 + n % 5000).unwrap());
                            let device = reel.allocator(1).unwrap();
                            drop(device.alloc(1 + n % (8 << 20), StreamId(i)).unwrap());
                            drop(memreel::alloc(100).unwrap());
                        });
                    });
                }
                scope.spawn(|| {
                    again(&|n| {
                        let _scope = reel.scope(&format!("scope {}", n % 50));
                        let at = Address(0x10_0000 + n % 64 * 4096);
                        ledger.alloc(at, 512, StreamId((n % 40).cast_signed())).unwrap();
                        ledger.free(at).unwrap();
                    });
                });
                scope.spawn(|| {
                    again(&|n| {
                        drop(reel.snapshot());
                        reel.record_history(&history().max_entries(1000 + n as usize % 1000));
                        drop(name_addresses(&[is_live as fn(&Snapshot, Address) -> bool as usize + 1]));
                        drop(Reel::builder().history(history()).build().unwrap());
                    });
                });
                thread::sleep(Duration::from_millis(300));
                let began = Instant::now();
                for n in 0..100 {
                    let mut kept = Some(reel.alloc(12_345).unwrap());
                    ends.push(in_child(|| use_everything(&reel, &ledger, kept.take(), n % 10 == 0)));
                    if ends.iter().filter(|end| **end == End::Hung).count() >= 3 {
                        break;
                    }
                }
                println!("{} children in {:?}", ends.len(), began.elapsed());
                is_over.store(true, Ordering::Relaxed);
            });
            let n_hung = ends.iter().filter(|end| **end == End::Hung).count();
            assert_eq!(n_hung, 0, "of {} children", ends.len());
            assert!(ends.iter().all(|end| *end == End::Sound), "{ends:?}");
            assert_sound(&reel.snapshot());
        },
    );
}

/// The child has the events up to the fork, and continues the chunks of threads that it does not have.
#[test]
fn a_child_continues_the_history() {
    own_process::run(module_path!(), "a_child_continues_the_history", Duration::from_secs(60), || {
        let reel = Reel::builder().history(Recording::all().max_entries(100_000)).build().unwrap();
        let (other, (to_other, from_main)) = (reel.clone(), mpsc::channel::<()>());
        let (to_main, from_other) = mpsc::channel();
        let thread = thread::spawn(move || {
            let kept = other.alloc(600_000).unwrap();
            to_main.send(kept.address()).unwrap();
            from_main.recv().unwrap();
        });
        let kept = [from_other.recv().unwrap(), reel.alloc(1000).unwrap().address()];
        let n_before = reel.recorder().n_events(DeviceId(0));
        let parent = Arc::new(reel);
        let in_the_child = || {
            assert_eq!(parent.recorder().n_events(DeviceId(0)), n_before);
            for _ in 0..3000 {
                drop(parent.alloc(700).unwrap());
            }
            assert_eq!(parent.recorder().n_events(DeviceId(0)), n_before + 9000);
            assert_eq!(parent.recorder().n_lost(DeviceId(0)), 0);
            let snapshot = parent.snapshot();
            assert_sound(&snapshot);
            assert!(is_live(&snapshot, kept[0]), "a block of a thread that is gone");
            let times: Vec<i64> = snapshot.device_traces[0].iter().map(|entry| entry.time_us).collect();
            assert!(times.is_sorted());
            let n_allocs = |bytes| {
                let trace = snapshot.device_traces[0].iter();
                trace.filter(|entry| entry.action == Some(Action::Alloc) && entry.size == bytes).count()
            };
            assert_eq!((n_allocs(600_000), n_allocs(1000), n_allocs(700)), (1, 1, 3000));
        };
        assert_eq!(in_child(in_the_child), End::Sound);
        assert_eq!(parent.recorder().n_events(DeviceId(0)), n_before, "the parent's is its own");
        to_other.send(()).unwrap();
        thread.join().unwrap();
    });
}

/// A thread may fork while it has a lock of memreel's; the child can run another program.
#[test]
fn a_fork_under_a_lock_ends() {
    own_process::run(module_path!(), "a_fork_under_a_lock_ends", Duration::from_secs(60), || {
        use memreel::integrate::Inventory;
        let reel = Reel::builder().history(Recording::all()).build().unwrap();
        let _block = reel.alloc(1000).unwrap();
        let mut end = None;
        reel.allocators()[0].inspect(&mut |_| end = Some(in_child(|| {})));
        assert_eq!(end, Some(End::Sound));
        drop(reel.alloc(1000).unwrap());
    });
}
