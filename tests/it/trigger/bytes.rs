//! Snapshots by bytes: of what was allocated, and of the peak.

use std::{thread, time::Duration};

use memreel::{Reel, device::Simulated, recorder::Recording, trigger::Triggers};

use super::program::{n_files, run, wait_until};

const MIB: u64 = 1 << 20;

fn reel(triggers: &Triggers) -> Reel {
    let reel = Reel::builder().device(Simulated::new(1 << 30)).device(Simulated::new(1 << 30));
    reel.history(Recording::all()).dump_on(triggers).build().unwrap()
}

/// Enough for the thread to look several times.
fn wait_a_little() {
    thread::sleep(Duration::from_millis(100));
}

#[test]
fn every_so_many_bytes_write_a_snapshot() {
    let Some(ran) = run(module_path!(), "every_so_many_bytes_write_a_snapshot", "", || {
        let reel = reel(&Triggers::to("snap-{n}.pickle").every_bytes(10 * MIB));
        let on_second = |bytes| reel.allocator(1).unwrap().alloc(bytes, memreel::StreamId::DEFAULT).unwrap();
        drop((reel.alloc(4 * MIB).unwrap(), on_second(4 * MIB)));
        wait_a_little();
        assert_eq!(n_files(), 0, "8 MiB");
        drop(reel.alloc(4 * MIB).unwrap());
        wait_until("12 MiB", || n_files() == 1);
        wait_a_little();
        assert_eq!(n_files(), 1);
        reel.allocators().iter().for_each(memreel::CachingAllocator::reset_accumulated_memory_stats);
        wait_a_little();
        (0..3).for_each(|_| drop(on_second(4 * MIB)));
        wait_until("10 MiB more", || n_files() == 2);
    }) else {
        return;
    };
    assert_eq!(ran.well().all_sound(), 2);
}

/// A peak that is over before the thread looks counts too.
#[test]
fn a_new_peak_writes_a_snapshot() {
    let Some(ran) = run(module_path!(), "a_new_peak_writes_a_snapshot", "", || {
        let reel = reel(&Triggers::to("snap-{n}.pickle").peak_above(20 * MIB));
        drop(reel.alloc(20 * MIB).unwrap());
        wait_a_little();
        assert_eq!(n_files(), 0, "not above");
        drop(reel.alloc(40 * MIB).unwrap());
        wait_until("a peak of 40 MiB", || n_files() == 1);
        drop(reel.alloc(40 * MIB).unwrap());
        drop(reel.alloc(41 * MIB).unwrap());
        reel.allocators().iter().for_each(memreel::CachingAllocator::reset_peak_memory_stats);
        drop(reel.alloc(30 * MIB).unwrap());
        wait_a_little();
        assert_eq!(n_files(), 1, "not a twentieth more");
        drop(reel.alloc(44 * MIB).unwrap());
        wait_until("a peak of 44 MiB", || n_files() == 2);
    }) else {
        return;
    };
    let ran = ran.well();
    let sizes = ran.snapshot("snap-0.pickle").device_traces[0].iter().map(|entry| entry.size).max();
    assert_eq!((ran.all_sound(), sizes), (2, Some(40 * MIB)));
}
