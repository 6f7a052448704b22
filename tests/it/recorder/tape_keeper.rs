//! Tapes that another process keeps: here the same one, by the file alone.

use std::{
    collections::BTreeSet,
    fs,
    os::fd::{FromRawFd, OwnedFd},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use memreel::{
    Action, Address, BlockState, DeviceId, PoolId, Recovered, StreamId, TapeKeeper,
    integrate::{Event, StackId, Track},
    recorder::{Recorder, Recording},
};

use super::tape_damage::{HEADER_BYTES, SLOT_BYTES};
use crate::random::Random;

/// Few, so that the list of live blocks is needed.
const RING: usize = 4096;

fn history(path: &Path) -> Recording {
    Recording::all().max_entries(RING).tape(path).kept_elsewhere()
}

fn record(track: &Track, action: Action, address: u64) {
    let (stream, pool, stack) = (StreamId::DEFAULT, PoolId::DEFAULT, StackId::NONE);
    track.record_unlocked(Event { action, address: Address(address), size_bytes: 512, stream, pool, stack });
}

/// Allocates and frees at random; returns what is live then. `tick` is called between events.
fn work(track: &Track, first: u64, n: u64, mut tick: impl FnMut(u64)) -> BTreeSet<u64> {
    let (mut random, mut live) = (Random::new(first), BTreeSet::new());
    for number in 0..n {
        let address = first + 512 * random.below(300);
        if live.remove(&address) {
            record(track, Action::FreeRequested, address);
            record(track, Action::FreeCompleted, address);
        } else {
            live.insert(address);
            record(track, Action::Alloc, address);
        }
        tick(number);
    }
    live
}

fn recovered(path: &Path) -> BTreeSet<u64> {
    let recovered = Recovered::read(path).unwrap();
    assert_eq!(recovered.problems(), [""; 0]);
    let snapshot = recovered.snapshot();
    let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
    let live = blocks.filter(|block| block.state == Some(BlockState::ActiveAllocated));
    live.map(|block| block.address.0).collect()
}

/// Returns how many blocks were ever allocated, and their bytes.
fn allocated(path: &Path) -> (u64, u64) {
    let of_run = Recovered::read(path).unwrap().snapshot().allocated(DeviceId(0)).unwrap();
    of_run.sums.iter().fold((0, 0), |(n, bytes), sum| (n + sum.n_blocks, bytes + sum.bytes))
}

/// Returns how many events are in the tape's snapshot, and how many are lost.
fn kept_and_lost(path: &Path) -> (u64, u64) {
    let snapshot = Recovered::read(path).unwrap().snapshot();
    let lost = snapshot.allocator_settings().unwrap().get("trace_alloc_lost_entries").unwrap();
    (snapshot.device_traces[0].len() as u64, lost.as_unsigned().unwrap())
}

/// It follows; it leaves after a third, and comes back after two thirds; it never comes.
#[test]
fn every_block_is_in_the_list_and_counted_whoever_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    const N: u64 = 200_000;
    let is_there: [fn(u64) -> bool; 3] =
        [|_| true, |number| !(N / 3..2 * N / 3).contains(&number), |_| false];
    for (case, is_there) in is_there.iter().enumerate() {
        let path = folder.path().join(format!("{case}.tape"));
        let recorder = Recorder::new();
        recorder.record_history(&history(&path));
        let track = recorder.track(DeviceId(0));
        let (mut keeper, mut n_folds) = (None, 0);
        let live = work(&track, 1 << 40, N, |number| {
            if number % 1000 > 0 {
            } else if is_there(number) {
                let keeper = keeper.get_or_insert_with(|| TapeKeeper::attach(&path).unwrap());
                n_folds += u64::from(keeper.keep());
            } else {
                keeper = None;
            }
        });
        assert_eq!(recovered(&path), live, "case {case}");
        // An event in two is a free, but for those of the blocks that are left.
        let n_allocated = (N + live.len() as u64) / 2;
        assert_eq!(allocated(&path), (n_allocated, 512 * n_allocated), "case {case}");
        let (n_kept, n_lost) = kept_and_lost(&path);
        let n_events = n_allocated + 2 * (N - n_allocated);
        assert_eq!((n_kept, n_kept + n_lost), (RING as u64, n_events), "case {case}");
        assert_eq!(n_folds > 10, case < 2, "case {case}: {n_folds} folds");
        drop((keeper, recorder, track));
        assert_eq!(recovered(&path), live, "case {case}, closed");
        assert_eq!(allocated(&path), (n_allocated, 512 * n_allocated), "case {case}, closed");
    }
}

/// Returns the descriptors of this process that are a file's.
fn descriptors(path: &Path) -> Vec<i32> {
    let all = fs::read_dir("/proc/self/fd").unwrap().flatten().map(|entry| entry.path());
    let is_of = |link: &std::path::PathBuf| fs::read_link(link).is_ok_and(|target| target == path);
    all.filter(is_of).map(|link| link.file_name().unwrap().to_str().unwrap().parse().unwrap()).collect()
}

/// The keeper of very many processes has no descriptor for each.
#[test]
fn a_keeper_has_no_descriptor() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let recorder = Recorder::new();
    recorder.record_history(&history(&path));
    let before = descriptors(&path);
    let mut keeper = TapeKeeper::attach(&path).unwrap();
    keeper.keep();
    assert_eq!(descriptors(&path), before);
    assert_eq!(before.len(), 1, "that of the recorder");
}

/// Lists may take long, so a thread of its own makes room.
#[test]
fn room_is_made_beside_a_keeper() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let recorder = Recorder::new();
    recorder.record_history(&history(&path));
    let n_bytes = || fs::metadata(&path).unwrap().len();
    let mut keeper = TapeKeeper::attach(&path).unwrap();
    let (maker, before) = (keeper.space_maker(), n_bytes());
    keeper.keep();
    assert_eq!(n_bytes(), before);
    maker.make_space();
    assert!(n_bytes() > before);
}

/// The keeper leaves, and meanwhile the program has closed its descriptor, and the file is not where it was: a program that
/// changes its root or its user cannot open it. The list is in memory too.
#[test]
fn a_list_is_taken_over_without_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, away) = (folder.path().join("run.tape"), folder.path().join("away.tape"));
    let recorder = Recorder::new();
    recorder.record_history(&history(&path));
    let track = recorder.track(DeviceId(0));
    (1..=1000).for_each(|number| record(&track, Action::Alloc, number << 40));
    let mut keeper = Some(TapeKeeper::attach(&path).unwrap());
    let mut n_folds = 0;
    let live = work(&track, 512, 300_000, |number| match number {
        100_000 => {
            keeper.take().unwrap().keep();
            // SAFETY: the recorder expects that a program closes it, and asks whose it is before it uses it.
            descriptors(&path).into_iter().for_each(|own| drop(unsafe { OwnedFd::from_raw_fd(own) }));
            std::fs::rename(&path, &away).unwrap();
        }
        // What waited for the keeper is room in the file, which cannot grow meanwhile.
        10_000..70_000 => {}
        _ if number % 1000 == 0 => n_folds += u64::from(keeper.as_mut().is_some_and(TapeKeeper::keep)),
        _ => {}
    });
    assert!(n_folds > 5, "{n_folds} folds");
    let old = (1..=1000).map(|number| number << 40);
    assert_eq!(recovered(&away), old.chain(live).collect());
}

#[test]
fn threads_record_while_another_process_keeps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let recorder = Recorder::new();
    recorder.record_history(&history(&path));
    let (track, is_done) = (recorder.track(DeviceId(0)), AtomicBool::new(false));
    let expected = thread::scope(|scope| {
        let (track, is_done, path) = (&track, &is_done, &path);
        scope.spawn(move || {
            let mut keeper = TapeKeeper::attach(path).unwrap();
            while !is_done.load(Ordering::Relaxed) {
                keeper.keep();
            }
        });
        let threads: Vec<_> = (1..5_u64)
            .map(|number| scope.spawn(move || work(track, number << 40, 100_000, |_| {})))
            .collect();
        let live = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<BTreeSet<u64>>();
        is_done.store(true, Ordering::Relaxed);
        live
    });
    assert_eq!(recovered(&path), expected);
}

/// The keeper's list is of before.
#[test]
fn what_was_erased_does_not_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let recorder = Recorder::new();
    recorder.record_history(&history(&path));
    let track = recorder.track(DeviceId(0));
    let mut keeper = TapeKeeper::attach(&path).unwrap();
    let before = work(&track, 1 << 40, 50_000, |_| _ = keeper.keep());
    assert!(!before.is_empty());
    recorder.record_history(&history(&path).clear_history(true));
    assert_eq!(recovered(&path), BTreeSet::new());
    let after = work(&track, 2 << 40, 50_000, |_| _ = keeper.keep());
    assert_eq!(recovered(&path), after);
}

/// The keeper left before, so this process keeps the tape, and the keeper's list is in the file.
#[test]
fn what_was_erased_after_the_keeper_left_does_not_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let recorder = Recorder::new();
    recorder.record_history(&history(&path));
    let track = recorder.track(DeviceId(0));
    (1..=1000).for_each(|number| record(&track, Action::Alloc, number << 40));
    let mut keeper = Some(TapeKeeper::attach(&path).unwrap());
    work(&track, 512, 500_000, |number| match number {
        100_000 => keeper = None,
        _ => keeper.iter_mut().for_each(|keeper| _ = keeper.keep()),
    });
    recorder.record_history(&history(&path).clear_history(true));
    assert_eq!(recovered(&path), BTreeSet::new());
    let after = work(&track, 2 << 50, 1000, |_| {});
    assert_eq!(recovered(&path), after);
}

#[test]
fn what_is_not_a_tape_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    assert!(TapeKeeper::attach(&path).unwrap_err().is_io());
    for bytes in [vec![], vec![0; 8192], b"memreel tape\r\n\x1a\n".to_vec()] {
        std::fs::write(&path, &bytes).unwrap();
        assert!(TapeKeeper::attach(&path).is_err(), "{} bytes", bytes.len());
    }
}

/// A changed byte is found in a chunk that has a checksum.
#[test]
fn chunks_are_sealed_after_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let recorder = Recorder::new();
    recorder.record_history(&history(&path));
    let track = recorder.track(DeviceId(0));
    let live = work(&track, 1 << 40, 3000, |_| {});
    drop((track, recorder));
    // Of the first chunk, the size of an event.
    let change = |path: &Path| {
        let mut bytes = std::fs::read(path).unwrap();
        let first = (0..).map(|slot| HEADER_BYTES + slot * SLOT_BYTES).find(|at| bytes[*at] == 1).unwrap();
        bytes[first + 128 + 32 * 700 + 24] ^= 1;
        let changed = folder.path().join("changed.tape");
        std::fs::write(&changed, bytes).unwrap();
        Recovered::read(&changed).unwrap().problems().to_vec()
    };
    assert_eq!(change(&path), [""; 0]);
    TapeKeeper::seal(&path).unwrap();
    assert_eq!(change(&path), ["1 chunks are not what was written; their events are kept as they are"]);
    assert_eq!(recovered(&path), live);
}
