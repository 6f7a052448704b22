//! A follower of a tape agrees with a reading of the whole file, however often it looks.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use memreel::{
    Address, DeviceId, Follower, Recovered, Reel, Snapshot, StreamId,
    analysis::{By, DeviceHistory, owners},
    device::Simulated,
    integrate::UsageReport,
    recorder::{Recorder, Recording},
};

use crate::random::Random;

/// The bytes of each site, by its frames, and the reserved bytes.
fn sites(snapshot: &Snapshot) -> (BTreeMap<String, u64>, u64) {
    let history = DeviceHistory::new(snapshot, DeviceId(0));
    let shown = history.shown_frames();
    let text = |group: &memreel::analysis::Group| match &group.site {
        memreel::analysis::Site::Stack(stack) => {
            format!("{:?}", shown.identifying_frames(*stack).map(|frame| &frame.name).collect::<Vec<_>>())
        }
        other => format!("{other:?}"),
    };
    let groups = history.top(history.end(), By::Stack);
    let mut all = BTreeMap::new();
    groups.iter().for_each(|group| *all.entry(text(group)).or_default() += group.bytes);
    (all, history.totals_at(history.end()).reserved_bytes)
}

#[inline(never)]
fn one(reel: &Reel, bytes: u64) -> memreel::Allocation {
    reel.alloc(bytes).unwrap()
}

#[inline(never)]
fn other(reel: &Reel, bytes: u64) -> memreel::Allocation {
    reel.alloc(bytes).unwrap()
}

#[test]
fn from_the_start_what_came_before_counts_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tape");
    let history = Recording::all().tape(&path);
    let reel = Reel::builder().device(Simulated::new(1 << 30)).history(history).build().unwrap();
    let kept = [one(&reel, 77), one(&reel, 100)];
    drop(other(&reel, 1000));
    let attached = [Follower::attach(&path), Follower::attach_from_start(&path)];
    drop(kept);
    let counts = attached.map(|follower| {
        let mut follower = follower.unwrap();
        let before = follower.sums().live_bytes(DeviceId(0));
        (0..3).for_each(|_| follower.look().unwrap());
        let device = &follower.devices()[0];
        (before, device.n_allocs, device.allocated_bytes, device.n_frees)
    });
    assert_eq!(counts, [(177, 0, 0, 2), (177, 3, 1177, 3)]);
}

#[test]
fn a_follower_agrees_with_the_whole_file() {
    for (seed, ring) in [(1, 100_000), (2, 4096), (3, 4096)] {
        let mut random = Random::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tape");
        let history = Recording::all().max_entries(ring).tape(&path);
        let reel = Reel::builder().device(Simulated::new(1 << 40)).history(history).build().unwrap();
        let mut blocks = vec![one(&reel, 77)];
        let mut follower = Follower::attach(&path).unwrap();
        for look in 0..12 {
            for _ in 0..random.below(6000) {
                if random.below(2) == 0 && !blocks.is_empty() {
                    blocks.swap_remove(random.below(blocks.len() as u64) as usize);
                } else {
                    let bytes = 1 + random.below(1 << 20);
                    blocks.push(if random.below(2) == 0 { one(&reel, bytes) } else { other(&reel, bytes) });
                }
            }
            // The second look has what the first saw.
            (0..2).for_each(|_| follower.look().unwrap());
            let recovered = Recovered::read(&path).unwrap();
            let whole = recovered.snapshot();
            let device = &follower.devices()[0];
            let expected: u64 = blocks.iter().map(memreel::Allocation::bytes).sum();
            assert_eq!((device.live_bytes, device.n_live), (expected, blocks.len() as u64), "{seed} {look}");
            assert!(device.peak_bytes >= device.live_bytes);
            let sums = follower.snapshot_of(&follower.sums());
            assert_eq!(sites(&sums), sites(&whole), "seed {seed}, look {look}");
            assert_eq!(follower.problems(), [""; 0]);
            assert!(follower.is_running() && !follower.is_closed());
        }
        assert!(ring > 4096 || follower.n_anew() > 0, "the ring drops what was not read");
        assert!(ring < 100_000 || follower.n_anew() == 0, "everything fits into the ring");
        drop((blocks, reel));
        follower.look().unwrap();
        let device = &follower.devices()[0];
        assert_eq!((device.live_bytes, device.n_live, follower.is_closed()), (0, 0, true));
    }
}

/// Threads without a common lock, and a follower that looks as fast as it can.
#[test]
fn a_follower_reads_what_threads_write_meanwhile() {
    const N_THREADS: u64 = 4;
    const N: u64 = 60_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tape");
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all().max_entries(1 << 20).tape(&path));
    let ledger = recorder.ledger(DeviceId(0));
    ledger.alloc(Address(1), 3, StreamId::DEFAULT).unwrap();
    let is_over = AtomicBool::new(false);
    let mut follower = Follower::attach(&path).unwrap();
    thread::scope(|scope| {
        let (ledger, is_over) = (&ledger, &is_over);
        let threads: Vec<_> = (1..=N_THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    for number in 1..=N {
                        let address = Address(thread << 40 | number << 9);
                        ledger.alloc(address, 100, StreamId::DEFAULT).unwrap();
                        if number % 10 != 0 {
                            ledger.free(address).unwrap();
                        }
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            is_over.store(true, Ordering::Relaxed);
        });
        while !is_over.load(Ordering::Relaxed) {
            follower.look().unwrap();
        }
    });
    (0..2).for_each(|_| follower.look().unwrap());
    let device = &follower.devices()[0];
    let n_kept = N_THREADS * N / 10;
    assert_eq!((device.n_live, device.live_bytes), (n_kept + 1, 100 * n_kept + 3));
    assert!(follower.n_anew() > 0 || device.n_allocs <= N_THREADS * N);
}

#[test]
fn owners_and_reports_are_those_of_now() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tape");
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all().tape(&path));
    let ledger = recorder.ledger(DeviceId(0));
    ledger.segment_alloc(Address(0x20_0000), 6 << 20, StreamId::DEFAULT).unwrap();
    let report = |used_bytes| UsageReport { used_bytes, total_bytes: 100 << 20, ..UsageReport::default() };
    recorder.report_usage(DeviceId(0), report(20 << 20));
    recorder.report_usage(DeviceId(0), report(9 << 20));
    let mut follower = Follower::attach(&path).unwrap();
    follower.look().unwrap();
    let device = &follower.devices()[0];
    assert_eq!((device.reserved_bytes, device.used_peak_bytes), (6 << 20, Some(20 << 20)));
    assert_eq!(device.report.map(|report| report.used_bytes), Some(9 << 20));
    let snapshot = follower.snapshot_of(&follower.sums());
    let tables = owners(&[&snapshot]);
    let rows: BTreeMap<&str, _> = tables[0].rows.iter().map(|row| (&*row.owner, row.now_bytes)).collect();
    assert_eq!((rows["program"], rows["unexplained"]), (Some(6 << 20), Some(3 << 20)), "{rows:?}");
}
