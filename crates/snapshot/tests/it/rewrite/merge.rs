//! `rewrite::merge` and `rewrite::split`: ranks become devices, and devices files.

use memreel_snapshot::{
    DeviceId, Snapshot,
    rewrite::{Part, merge, split},
    validate::{Severity, validate},
};

use crate::recorded::recorded;

/// What a device of a snapshot holds, with names for numbers.
fn device(snapshot: &Snapshot, number: usize) -> serde_json::Value {
    let mut json = serde_json::to_value(snapshot).unwrap();
    let mut segments = json["segments"].as_array_mut().unwrap().split_off(0);
    segments.retain(|segment| segment["device"] == number);
    segments.iter_mut().for_each(|segment| drop(segment.as_object_mut().unwrap().remove("device")));
    serde_json::json!([segments, json["device_traces"][number]])
}

/// The ranks of a run: one device's worth of a recording each.
fn ranks(n: u64) -> Vec<Snapshot> {
    (0..n).map(|seed| split(recorded(seed, 200)).swap_remove(0).1).collect()
}

fn parts(snapshots: &[Snapshot], ranks: &[Option<usize>]) -> Vec<Part> {
    let parts = snapshots.iter().cloned().zip(ranks);
    parts.map(|(snapshot, rank)| Part::new(snapshot).rank(*rank)).collect()
}

fn errors(snapshot: &Snapshot) -> usize {
    validate(snapshot).iter().filter(|finding| finding.severity == Severity::Error).count()
}

#[test]
fn the_device_is_the_rank() {
    let all = ranks(3);
    let whole = merge(parts(&all, &[Some(3), Some(0), Some(1)])).unwrap();
    assert_eq!(whole.device_traces.len(), 4);
    for (seed, number) in [(0, 3), (1, 0), (2, 1)] {
        assert!(device(&whole, number) == device(&all[seed], 0), "rank {number}");
    }
    assert!(whole.device_traces[2].is_empty());
    assert_eq!(errors(&whole), 0);
    assert!(whole.allocator_settings().is_some());
}

#[test]
fn without_ranks_the_files_are_counted_where_devices_collide() {
    let all = ranks(2);
    let whole = merge(parts(&all, &[None, None])).unwrap();
    assert!([0, 1].iter().all(|number| device(&whole, *number) == device(&all[*number], 0)));
    let apart = split(recorded(6, 300));
    assert_eq!(apart.len(), 2);
    let other = apart.into_iter().nth(1).unwrap().1;
    let whole = merge(parts(&[other.clone(), all[1].clone()], &[None, None])).unwrap();
    assert!(device(&whole, 1) == device(&other, 1) && device(&whole, 0) == device(&all[1], 0));
}

#[test]
fn files_of_two_devices_get_two_numbers_each() {
    let both = [4, 5].map(|seed| recorded(seed, 200));
    let whole = merge(parts(&both, &[None, None])).unwrap();
    for number in 0..4 {
        assert!(device(&whole, number) == device(&both[number / 2], number % 2), "device {number}");
    }
    assert_eq!(errors(&whole), 0);
}

#[test]
fn what_was_split_and_merged_is_as_before() {
    for seed in 0..20 {
        let whole = recorded(seed, 200);
        let parts = split(whole.clone());
        for (device_id, part) in &parts {
            let number = device_id.index().unwrap();
            assert!(device(part, number) == device(&whole, number));
            assert_eq!(part.n_events(), whole.device_traces[number].len());
        }
        let again = merge(parts.into_iter().map(|(_, snapshot)| Part::new(snapshot))).unwrap();
        for number in 0..2 {
            assert!(device(&again, number) == device(&whole, number), "seed {seed}");
        }
        assert_eq!(again.external_annotations.len(), whole.external_annotations.len());
    }
}

#[test]
fn the_same_rank_twice_is_refused() {
    let error = merge(parts(&ranks(2), &[Some(1), Some(1)])).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("two files have the rank 1"), "{error}");
    assert!(merge(parts(&ranks(1), &[Some(1 << 40)])).unwrap_err().to_string().contains("too large"));
}

/// No list is made with an element for each device up to that number.
#[test]
fn a_device_number_in_the_billions_is_refused_or_left_out() {
    let mut whole = recorded(1, 100);
    whole.segments[0].device = DeviceId(2_000_000_000);
    let parts = split(whole.clone());
    assert_eq!(parts.iter().map(|(device, _)| device.0).collect::<Vec<_>>(), [0, 1]);
    let error = merge([Part::new(whole)]).unwrap_err();
    assert!(
        error.is_misuse() && error.to_string().contains("the device number 2000000000 is too large"),
        "{error}"
    );
}

#[test]
fn nothing_merged_is_an_empty_snapshot_that_a_viewer_loads() {
    let whole = merge([]).unwrap();
    assert_eq!((whole.device_traces.len(), whole.segments.len()), (1, 0));
}
