//! Files read with and without their events are the same, whatever was changed in them.

use memreel_snapshot::{DeviceId, model::SnapshotSource, pickle};

use crate::{fixtures::all_files, random::Random};

/// What both ways of reading make of the bytes: the file written again, or the error.
fn both(bytes: &[u8]) -> [Result<Vec<u8>, String>; 2] {
    let whole = pickle::from_slice(bytes).map(|snapshot| pickle::to_vec(&snapshot));
    let lazy = pickle::lazy(bytes).map(|lazy| pickle::to_vec(&lazy));
    [whole, lazy].map(|bytes| bytes.map_err(|error| error.to_string()))
}

#[test]
fn events_left_in_the_file_are_those_that_are_loaded() {
    let mut n_lazy = 0;
    for (name, bytes) in all_files() {
        let whole = pickle::from_slice(&bytes).unwrap();
        let lazy = pickle::lazy(&bytes).unwrap();
        n_lazy += usize::from(lazy.is_in_file());
        assert_eq!(lazy.n_events(), whole.n_events(), "{name}");
        let again = lazy.to_snapshot().unwrap();
        assert!(again.device_traces == whole.device_traces, "{name}: entries with other numbers");
        assert!(serde_json::to_string(&again).unwrap() == serde_json::to_string(&whole).unwrap(), "{name}");
        let [whole, lazy] = both(&bytes);
        assert!(whole == lazy, "{name}: other bytes");
    }
    assert!(n_lazy > 25, "only {n_lazy} files were read without their events");
}

#[test]
fn changed_files_give_the_same_either_way() {
    let mut random = Random::new(2);
    let mut n_read = 0;
    for (name, original) in all_files().into_iter().filter(|(_, bytes)| bytes.len() < 8192) {
        for _ in 0..300 {
            let (bytes, at) = random.changed(&original);
            let [whole, lazy] = both(&bytes);
            assert!(whole == lazy, "{name}: byte {at} became {:#x}: {whole:?} {lazy:?}", bytes[at]);
            n_read += usize::from(whole.is_ok());
        }
    }
    assert!(n_read > 1000, "only {n_read} changed files could be read");
}

#[test]
fn a_range_of_events_is_cut_from_all_of_them() {
    for (name, bytes) in all_files() {
        let lazy = pickle::lazy(&bytes).unwrap();
        for device in DeviceId::first(lazy.n_traces()) {
            let mut all = Vec::new();
            lazy.for_each_entry(device, &mut |entry| all.push(*entry));
            for (from, to) in [(0, 1), (1, 7), (5, 5), (3, usize::MAX), (usize::MAX - 1, usize::MAX)] {
                let mut some = Vec::new();
                lazy.for_each_entry_in(device, from..to, &mut |entry| some.push(*entry));
                let expected = all.iter().skip(from).take(to - from).copied().collect::<Vec<_>>();
                assert!(some == expected, "{name}: {from}..{to}");
            }
        }
    }
}
