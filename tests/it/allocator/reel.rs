//! Reels: several devices, threads, running out of memory, the process-wide default.

use std::sync::Arc;

use memreel::{
    Action, Address, CachingAllocator, DeviceId, Reel, StreamId,
    device::{Host, Limit, Simulated},
    recorder::{Context, Recording},
    validate::{Severity, validate},
};

const MIB: u64 = 1 << 20;

#[test]
fn devices_stand_side_by_side() {
    let reel = Reel::builder()
        .device(Simulated::new(80 << 30))
        .device(Simulated::new(40 << 30))
        .device(Host::new())
        .history(Recording::all())
        .build()
        .unwrap();
    let first = reel.allocator(0).unwrap().alloc(MIB, StreamId::DEFAULT).unwrap();
    let second = reel.allocator(1).unwrap().alloc(30 * MIB, StreamId(5)).unwrap();
    assert_eq!(first.address(), second.address(), "two devices may use the same addresses");
    assert_eq!((first.device_id(), second.device_id()), (DeviceId(0), DeviceId(1)));
    let snapshot = reel.snapshot();
    memreel::pickle::save(&snapshot, crate::written("three-devices.pickle")).unwrap();
    let lengths: Vec<_> = snapshot.device_traces.iter().map(Vec::len).collect();
    assert_eq!(lengths, [2, 2, 0]);
    let segments: Vec<_> =
        snapshot.segments.iter().map(|s| (s.device, s.total_size / MIB, s.stream)).collect();
    assert_eq!(segments, [(DeviceId(0), 2, StreamId(0)), (DeviceId(1), 30, StreamId(5))]);
    assert_eq!(reel.allocator(0).unwrap().memory_reserved(), 2 * MIB);
    assert_eq!(reel.allocator(1).unwrap().memory_reserved(), 30 * MIB);
    let error = reel.allocator(3).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("3"), "{error}");
}

#[test]
fn the_snapshot_is_on_disk_before_the_error_is_returned() {
    let path = crate::written("out-of-memory.pickle");
    let _ = std::fs::remove_file(&path);
    let reel = Reel::builder()
        .device(Limit::new(Host::new(), 50 * MIB))
        .history(Recording::all())
        .save_on_oom(&path)
        .build()
        .unwrap();
    let _held = reel.alloc(30 * MIB).unwrap();
    let error = reel.alloc(30 * MIB).unwrap_err();
    let figures = error.out_of_memory().expect("out of memory");
    assert_eq!(figures.snapshot.as_deref(), Some(path.as_path()));
    assert!(error.to_string().contains("out-of-memory.pickle"), "{error}");
    let saved = memreel::pickle::load(&path).unwrap();
    let last = saved.device_traces[0].last().unwrap();
    assert_eq!((last.action, last.size, last.device_free_bytes()), (Some(Action::Oom), 30 * MIB, 20 * MIB));
    assert_eq!(saved.segments[0].blocks[0].requested_size, 30 * MIB);
}

#[test]
fn the_first_failure_keeps_its_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("oom.pickle");
    let reel = Reel::builder()
        .device(Simulated::new(50 * MIB))
        .device(Simulated::new(50 * MIB))
        .history(Recording::all())
        .save_on_oom(&path)
        .build()
        .unwrap();
    let first = reel.alloc(60 * MIB).unwrap_err();
    let of_first = std::fs::read(&path).unwrap();
    let _held = reel.alloc(MIB).unwrap();
    let second = reel.allocator(1).unwrap().alloc(70 * MIB, StreamId::DEFAULT).unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), of_first);
    assert_eq!(first.out_of_memory().unwrap().snapshot.as_deref(), Some(path.as_path()));
    let second = second.out_of_memory().unwrap().clone();
    assert_eq!((second.snapshot.as_ref(), second.kept_snapshot.as_ref()), (None, Some(&path)));
    let text = second.to_string();
    assert!(text.contains("oom.pickle for an earlier failure, whose snapshot is kept"), "{text}");
}

#[test]
fn every_failure_has_a_snapshot_if_the_path_has_a_number() {
    let folder = tempfile::tempdir().unwrap();
    let reel = Reel::builder().device(Simulated::new(50 * MIB)).history(Recording::all()).build().unwrap();
    reel.save_on_oom(folder.path().join("oom-{pid}-{n}.pickle"));
    for number in 0..3_u64 {
        let error = reel.alloc((60 + number) * MIB).unwrap_err();
        let path = folder.path().join(format!("oom-{}-{number}.pickle", std::process::id()));
        assert_eq!(error.out_of_memory().unwrap().snapshot.as_deref(), Some(path.as_path()));
        let saved = memreel::pickle::load(&path).unwrap();
        assert_eq!(saved.device_traces[0].last().unwrap().size, (60 + number) * MIB);
    }
    let names = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let (snapshots, verdicts): (Vec<_>, Vec<_>) = names.partition(|name| name.ends_with(".pickle"));
    assert_eq!((snapshots.len(), verdicts.len()), (3, 6), "{verdicts:?}");
}

#[test]
fn a_failure_is_saved_if_the_one_before_could_not_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("later/oom.pickle");
    let reel = Reel::builder().device(Simulated::new(50 * MIB)).save_on_oom(&path).build().unwrap();
    let failed = reel.alloc(60 * MIB).unwrap_err();
    assert!(failed.out_of_memory().unwrap().snapshot_failure.is_some());
    std::fs::create_dir(folder.path().join("later")).unwrap();
    let saved = reel.alloc(60 * MIB).unwrap_err();
    assert_eq!(saved.out_of_memory().unwrap().snapshot.as_deref(), Some(path.as_path()));
}

#[test]
fn a_snapshot_that_cannot_be_saved_does_not_hide_the_error() {
    let reel = Reel::builder().device(Limit::new(Host::new(), MIB)).build().unwrap();
    reel.save_on_oom("/nowhere/at/all/oom.pickle");
    let error = reel.alloc(MIB).unwrap_err();
    let figures = error.out_of_memory().expect("still out of memory");
    assert_eq!(figures.snapshot, None);
    assert!(figures.snapshot_failure.as_ref().unwrap().contains("/nowhere"), "{error}");
}

#[test]
fn observers_may_use_the_allocator() {
    let allocator = CachingAllocator::new(
        Limit::new(Simulated::new(80 << 30), 100 * MIB),
        &memreel::recorder::Recorder::new().track(DeviceId(0)),
    );
    let again = allocator.clone();
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen_too = seen.clone();
    allocator.on_oom(move |figures| {
        // Outside the lock: neither of these waits for ever.
        drop(again.alloc(MIB, StreamId::DEFAULT));
        seen_too.lock().unwrap().push((
            figures.requested_bytes,
            figures.segment_bytes,
            again.memory_reserved(),
        ));
    });
    assert!(allocator.alloc(101 * MIB, StreamId::DEFAULT).is_err());
    assert_eq!(*seen.lock().unwrap(), [(101 * MIB, 102 * MIB, 2 * MIB)]);
}

#[test]
fn threads_share_an_allocator_while_snapshots_are_taken() {
    let reel = Reel::builder()
        .device(Simulated::new(80 << 30))
        .history(Recording::all().context(Context::None).max_entries(5000))
        .build()
        .unwrap();
    std::thread::scope(|threads| {
        for thread in 0..6_u64 {
            let reel = reel.clone();
            threads.spawn(move || {
                let allocator = reel.allocator(0).unwrap();
                let mut held = std::collections::VecDeque::new();
                for n in 0..2000_u64 {
                    let bytes = 1 + (n * 7919 + thread * 104_729) % (3 * MIB);
                    held.push_back(allocator.alloc(bytes, StreamId::from_handle(thread % 3)).unwrap());
                    if held.len() > 20 {
                        drop(held.pop_front());
                    }
                }
            });
        }
        for _ in 0..20 {
            let snapshot = reel.snapshot();
            let errors: Vec<_> =
                validate(&snapshot).into_iter().filter(|f| f.severity == Severity::Error).collect();
            assert!(errors.is_empty(), "{errors:?}");
        }
    });
    let stats = reel.allocator(0).unwrap().stats();
    assert_eq!((stats.allocation.all.allocated, stats.allocation.all.current), (12_000, 0));
    assert_eq!(reel.recorder().n_events(DeviceId(0)), 5000);
}

#[test]
fn an_allocation_keeps_its_allocator_alive() {
    let device = Arc::new(Simulated::new(80 << 30));
    let reel = Reel::builder().device(device.clone()).build().unwrap();
    let block = reel.alloc(MIB).unwrap();
    drop(reel);
    assert_eq!(device.n_segments(), 1);
    drop(block);
    assert_eq!(device.n_segments(), 0);
}

#[test]
fn a_device_failure_is_not_out_of_memory() {
    let reel = Reel::builder().device(Simulated::new(80 << 30).scripted([] as [Address; 0])).build().unwrap();
    let error = reel.alloc(MIB).unwrap_err();
    assert!(error.is_device() && !error.is_out_of_memory(), "{error}");
    assert_eq!(reel.allocator(0).unwrap().stats().num_ooms, 0);
}

#[test]
fn an_observer_whose_own_request_fails_is_told_once() {
    let reel = Reel::builder().device(Limit::new(Simulated::new(80 << 30), 10 * MIB)).build().unwrap();
    let allocator = reel.allocator(0).unwrap();
    let (again, told) = (allocator.clone(), Arc::new(std::sync::atomic::AtomicU32::new(0)));
    let counted = told.clone();
    allocator.on_oom(move |_| {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        assert!(again.alloc(1 << 30, StreamId::DEFAULT).is_err());
    });
    for n in 1..=2 {
        assert!(reel.alloc(1 << 30).is_err());
        assert_eq!(told.load(std::sync::atomic::Ordering::Relaxed), n);
    }
}

#[test]
fn an_error_reads_the_same_however_it_is_printed() {
    let error = Reel::builder().build().unwrap().alloc(0).unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
}

#[test]
fn blocks_without_a_handle_are_freed_with_their_allocator() {
    let device = Arc::new(Simulated::new(80 << 30));
    let reel = Reel::builder().device(device.clone()).build().unwrap();
    let allocator = reel.allocator(0).unwrap();
    let kept = allocator.alloc_raw(MIB, StreamId::DEFAULT).unwrap();
    let freed = allocator.alloc_raw(MIB, StreamId::DEFAULT).unwrap();
    assert_ne!(kept, freed);
    assert!(allocator.free_raw(freed).is_some_and(|freed| freed.is_ok()));
    assert!(allocator.free_raw(freed).is_none(), "a block is freed once");
    drop(reel);
    assert_eq!(device.n_segments(), 0);
}
