//! The library of a frame: in memreel's snapshots and files, and not in anonymised ones.
#![forbid(unsafe_code)]

use memreel::{
    Address, DeviceId, Recovered, Snapshot, StreamId, pickle,
    recorder::{Recorder, Recording},
    rewrite::Slim,
    snapshot::{Dialect, collect},
};

/// The file name of this test, which is the library of its frames.
fn our_name() -> String {
    std::env::current_exe().unwrap().file_name().unwrap().to_str().unwrap().to_owned()
}

fn libraries(snapshot: &Snapshot) -> Vec<Option<String>> {
    snapshot.stacks.all_frames().map(|frame| snapshot.library(frame).map(ToOwned::to_owned)).collect()
}

#[test]
fn native_frames_have_the_name_of_their_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all().tape(&path));
    let ledger = recorder.ledger(DeviceId(0));
    ledger.alloc(Address(4096), 512, StreamId::DEFAULT).unwrap();
    let now = collect(&recorder, [&ledger], Dialect::default());
    let read = pickle::from_slice(&pickle::to_vec(&now)).unwrap();
    let recovered = Recovered::read(&path).unwrap().snapshot();
    for snapshot in [&now, &read, &recovered] {
        let all = libraries(snapshot);
        assert!(all.contains(&Some(our_name())), "{all:?}");
        assert!(all.iter().flatten().any(|name| name.starts_with("libc.so")), "{all:?}");
        assert!(all.iter().flatten().all(|name| !name.contains('/')), "{all:?}");
    }
    let ours = now.stacks.all_frames().find(|frame| frame.name.contains("native_frames_have")).unwrap();
    assert_eq!(now.library(ours), Some(&*our_name()));
    let anonymous = Slim::new().anonymise(true).apply(now.clone()).unwrap();
    assert!(libraries(&anonymous).iter().all(Option::is_none), "{:?}", libraries(&anonymous));
    let bytes = pickle::to_vec(&anonymous);
    assert!(!bytes.windows(our_name().len()).any(|part| part == our_name().as_bytes()));
}
