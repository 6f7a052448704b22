//! Tests unusual files, read with and without their events.

use super::{super::samples, *};
use crate::pickle;

/// Returns the result of both ways of reading the bytes: the file written again, or the error.
fn both(bytes: &[u8]) -> [std::result::Result<Vec<u8>, String>; 2] {
    let whole = pickle::from_slice(bytes).map(|snapshot| pickle::to_vec(&snapshot));
    let lazy = pickle::lazy(bytes).map(|lazy| pickle::to_vec(&lazy));
    [whole, lazy].map(|bytes| bytes.map_err(|error| error.to_string()))
}

#[test]
fn files_of_every_layout_are_read_without_their_events() {
    for (name, bytes) in samples::files() {
        let lazy = pickle::lazy(&bytes).unwrap();
        assert!(lazy.is_in_file(), "{name}");
        let [whole, lazy] = both(&bytes);
        assert!(whole == lazy, "{name}: other bytes");
    }
}

#[test]
fn a_visit_within_a_visit_sees_the_same() {
    let (_, bytes) = samples::files().pop().unwrap();
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

#[test]
fn entries_that_are_alike_are_found_by_batches() {
    let mut snapshot = Snapshot::default();
    let keys = [("action", crate::model::Field::Action), ("addr", crate::model::Field::Addr)];
    let shape = snapshot.shapes.intern(crate::model::Shape::from_fields(&keys));
    let action = Some(crate::words::Action::Alloc);
    let entry = |address: u64| TraceEntry { address: address.into(), shape, action, ..TraceEntry::default() };
    snapshot.device_traces = vec![(0..200_000).map(entry).collect()];
    snapshot.shape.set("device_traces".into(), crate::model::Slot::Field(crate::model::Field::DeviceTraces));
    let bytes = pickle::to_vec(&snapshot);
    let lazy = pickle::lazy(&bytes).unwrap();
    let Content::InFile(in_file) = &lazy.content else { panic!("it is in memory as a whole") };
    let mut reader = in_file.reader.borrow_mut();
    let Entries::InFile(spans) = reader.entries_mut() else { panic!("entries are in memory") };
    assert!(spans.n_spans() < 300, "{} spans in 200 batches", spans.n_spans());
    drop(reader);
    assert_eq!(pickle::to_vec(&lazy), bytes);
    assert!(lazy.to_snapshot().is_ok());
}
