//! A program that the environment tells to record its heap.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use memreel::Action;

use crate::own_process;

#[test]
fn the_environment_switches_the_heap_on() {
    let limit = Duration::from_secs(60);
    let told = [("MEMREEL", "all,stacks=none")];
    let ran = own_process::output(
        module_path!(),
        "the_environment_switches_the_heap_on",
        limit,
        Path::new("."),
        &told,
        || {
            memreel::default_reel().unwrap();
            let numbers = vec![7_u8; 123_457];
            let snapshot = memreel::snapshot().unwrap();
            let allocs = snapshot.device_traces[1].iter().filter(|entry| entry.action == Some(Action::Alloc));
            assert!(allocs.clone().any(|entry| entry.size == 123_457), "device 1 is the heap");
            drop(numbers);
        },
    );
    if let Some((status, printed)) = ran {
        assert!(status.success(), "{printed}");
    }
}

/// The thread that writes snapshots allocates while it does so.
#[test]
fn the_thread_of_triggers_records_nothing_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let limit = Duration::from_secs(120);
    let name = "the_thread_of_triggers_records_nothing_of_its_own";
    let told = [("MEMREEL", "all,ring=5000,dump=every:10ms,keep=2,file=snap-{n}.pickle")];
    let ran = own_process::output(module_path!(), name, limit, folder.path(), &told, || {
        memreel::default_reel().unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        while !fs::exists("snap-5.pickle").unwrap() {
            assert!(Instant::now() < end, "no snapshots");
            drop(vec![7_u8; 1000]);
            thread::sleep(Duration::from_millis(1));
        }
        let snapshot = memreel::snapshot().unwrap();
        let of_heap = &snapshot.device_traces[1];
        assert!(of_heap.iter().any(|entry| entry.action == Some(Action::Alloc) && entry.size == 1000));
        for entry in of_heap {
            let names: Vec<_> = snapshot.frames(entry.stack).map(|frame| &*frame.name).collect();
            assert!(!names.iter().any(|name| name.contains("trigger::worker::run")), "{names:#?}");
        }
    });
    if let Some((status, printed)) = ran {
        assert!(status.success(), "{printed}");
        assert!(printed.contains("1 passed"), "{printed}");
    }
}
