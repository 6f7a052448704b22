//! Files read with and without their events are the same, whatever was changed in them.

use std::{fs, path::Path};

use super::*;
use crate::{pickle, random::Random};

fn fixtures() -> Vec<(String, Vec<u8>)> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let folders = ["synthetic", "torch-2.11/snapshots"].map(|folder| fs::read_dir(fixtures.join(folder)));
    let paths = folders.into_iter().flat_map(|folder| folder.unwrap()).map(|entry| entry.unwrap().path());
    paths.map(|path| (path.display().to_string(), fs::read(path).unwrap())).collect()
}

/// What both ways of reading make of the bytes: the file written again, or the error.
fn both(bytes: &[u8]) -> [std::result::Result<Vec<u8>, String>; 2] {
    let whole = pickle::from_slice(bytes).map(|snapshot| pickle::to_vec(&snapshot));
    let lazy = pickle::lazy(bytes).map(|lazy| pickle::to_vec(&lazy));
    [whole, lazy].map(|bytes| bytes.map_err(|error| error.to_string()))
}

#[test]
fn events_left_in_the_file_are_those_that_are_loaded() {
    let mut n_lazy = 0;
    for (name, bytes) in fixtures() {
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
    let mut below = |limit: usize| random.below(limit as u64) as usize;
    let mut n_read = 0;
    for (name, original) in fixtures().into_iter().filter(|(_, bytes)| bytes.len() < 8192) {
        for n in 0..300 {
            let mut bytes = original.clone();
            let at = below(bytes.len());
            bytes[at] = if n % 2 == 0 { original[below(original.len())] } else { bytes[at] ^ 1 << below(8) };
            let [whole, lazy] = both(&bytes);
            assert!(whole == lazy, "{name}: byte {at} became {:#x}: {whole:?} {lazy:?}", bytes[at]);
            n_read += usize::from(whole.is_ok());
        }
    }
    assert!(n_read > 1000, "only {n_read} changed files could be read");
}

#[test]
fn a_range_of_events_is_cut_from_all_of_them() {
    for (name, bytes) in fixtures() {
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

#[test]
fn a_visit_within_a_visit_sees_the_same() {
    let (_, bytes) = fixtures().into_iter().find(|(name, _)| name.ends_with("valid.pickle")).unwrap();
    let lazy = pickle::lazy(&bytes).unwrap();
    assert!(lazy.is_in_file());
    let (mut n_outside, mut n_inside) = (0, 0);
    lazy.for_each_entry(DeviceId(0), &mut |_| {
        n_outside += 1;
        lazy.for_each_entry(DeviceId(0), &mut |_| n_inside += 1);
    });
    assert!(n_outside > 0 && n_inside == n_outside * n_outside);
    assert!(lazy.check().is_ok());
}

/// A list of dictionaries under an unknown key, which the next entry has for its frames.
#[test]
fn a_value_that_becomes_a_stack_stays_the_value_it_was() {
    let bytes = [
        b"\x80\x04}(\x8c\x0ddevice_traces](](".to_vec(),
        b"}(\x8c\x06actionq\x00\x8c\x05allocq\x01\x8c\x06framesq\x02](}(\x8c\x04nameq\x03\x8c\x01aueq\x0au"
            .to_vec(),
        b"}(h\x00h\x01\x8c\x01xq\x04](}(h\x03\x8c\x01bueq\x0bu".to_vec(),
        b"}(h\x00h\x01h\x04h\x0bu}(h\x00h\x01h\x04h\x0bu".to_vec(),
        b"}(h\x00h\x01h\x02h\x0bu}(h\x00h\x01h\x02h\x0bu".to_vec(),
        b"}(h\x00h\x01h\x04h\x0bu".to_vec(),
        b"eeu.".to_vec(),
    ]
    .concat();
    let [whole, lazy] = both(&bytes);
    assert_eq!(whole.as_ref().unwrap(), lazy.as_ref().unwrap());
    assert!(pickle::lazy(&bytes).unwrap().is_in_file());
}

#[test]
fn a_number_assigned_twice_needs_the_whole_snapshot_in_memory() {
    let entry = |frames: &[u8]| [b"}(h\x00h\x01h\x02](".as_slice(), frames, b"eu"].concat();
    let bytes = [
        b"\x80\x04}(\x8c\x0ddevice_traces](](".to_vec(),
        b"}(\x8c\x06actionq\x00\x8c\x05allocq\x01\x8c\x06framesq\x02]u".to_vec(),
        entry(b"}(\x8c\x04name\x8c\x01auq\x0a"),
        entry(b"h\x0a"),
        entry(b"}(\x8c\x04name\x8c\x01buq\x0a"),
        entry(b"h\x0a"),
        b"eeu.".to_vec(),
    ]
    .concat();
    let [whole, lazy] = both(&bytes);
    assert_eq!(whole.unwrap(), lazy.unwrap());
    assert!(!pickle::lazy(&bytes).unwrap().is_in_file());
}

/// Bytes that change under the map are an error, not a panic.
#[cfg(unix)]
#[test]
fn a_file_that_changes_is_reported() {
    use std::{io::Write, os::unix::fs::FileExt};

    let mut snapshot = Snapshot::default();
    let keys = [("action", crate::snapshot::Field::Action), ("addr", crate::snapshot::Field::Addr)];
    let shape = snapshot.shapes.intern(crate::snapshot::Shape::of(&keys));
    let action = Some(crate::event::Action::Alloc);
    let entry = |address: u64| TraceEntry { address: address.into(), shape, action, ..TraceEntry::default() };
    snapshot.device_traces = vec![(0..200_000).map(entry).collect()];
    snapshot
        .shape
        .set("device_traces".into(), crate::snapshot::Slot::Field(crate::snapshot::Field::DeviceTraces));
    let bytes = pickle::to_vec(&snapshot);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    let open = pickle::open(file.path()).unwrap();
    assert!(matches!(open.0, Bytes::Mapped(_)), "{} bytes", bytes.len());
    let lazy = open.lazy().unwrap();
    let Content::InFile(in_file) = &lazy.content else { panic!("it is in memory as a whole") };
    let mut reader = in_file.reader.borrow_mut();
    let Entries::InFile(spans) = reader.entries_mut() else { panic!("entries are in memory") };
    assert!(spans.n_spans() < 300, "{} spans in 200 batches", spans.n_spans());
    drop(reader);
    assert_eq!(pickle::to_vec(&lazy), bytes);
    file.as_file().write_all_at(&[0; 100], bytes.len() as u64 / 2).unwrap();
    assert!(pickle::write(&lazy, io::sink()).unwrap_err().to_string().contains("was changed"));
    assert!(lazy.to_snapshot().is_err());
}
