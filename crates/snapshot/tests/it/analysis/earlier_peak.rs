//! A peak that the events of a file do not have, and what is known of the last events alone.

use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{By, DeviceHistory, Limits, owners},
    model::{Allocated, RecordedSettings, StackTable, store_allocated},
};

use super::questions::{lines, snapshot};

const DEVICE: DeviceId = DeviceId(0);

/// A heap whose ring lost its first events: blocks of lines 1 and 2 are in use in those that are left, 30 bytes at most. `at_peak`
/// is what both lines had when the device had the most; `None` if the file does not say.
fn lost(at_peak: Option<[u64; 2]>, n_cut: u64) -> Snapshot {
    let mut snapshot = snapshot(
        &[
            ("alloc", 0x1000, 10, 1),
            ("alloc", 0x2000, 20, 2),
            ("free_requested", 0x1000, 10, 1),
            ("free_completed", 0x1000, 10, 1),
        ],
        &[(0x2000, 20, &[(0x2000, 20, 2)])],
    );
    let recorded = RecordedSettings { has_lost: true, n_lost: 9, n_cut, ..RecordedSettings::default() };
    RecordedSettings::store(&mut snapshot, &[(DEVICE, recorded)]);
    let stacks =
        [0, 1].map(|entry: usize| snapshot.device_traces[0][entry].stack.unwrap_or(StackTable::EMPTY));
    let sum = |(stack, bytes)| Allocated {
        stack,
        n_blocks: 7,
        bytes: 500,
        peak_bytes: Some(bytes),
        least_peak_bytes: bytes,
        n_at_peak: 2,
        bytes_at_peak: bytes,
    };
    if let Some(at_peak) = at_peak {
        let sums = stacks.into_iter().zip(at_peak).map(sum).collect();
        store_allocated(&mut snapshot, &[(DEVICE, sums, Some(1))]);
    }
    snapshot
}

#[test]
fn a_higher_peak_before_the_events_counts() {
    let snapshot = lost(Some([30, 70]), 0);
    let history = DeviceHistory::new(&snapshot, DEVICE);
    let peak = history.earlier_peak().unwrap();
    assert_eq!((peak.bytes, peak.n_blocks, peak.time_us), (100, 4, 1));
    let stacks = peak.stacks();
    for by in [By::Stack, By::File, By::Function, By::Owner] {
        let groups = peak.top(&stacks, by).unwrap();
        assert_eq!(groups.iter().map(|group| group.bytes).sum::<u64>(), 100, "{by:?}");
        assert_eq!(groups.iter().map(|group| group.n_blocks).sum::<usize>(), 4, "{by:?}");
    }
    let first = &peak.top(&stacks, By::Stack).unwrap()[0];
    assert_eq!((lines(stacks.snapshot(), &first.site), first.bytes), (2, 70));
    assert!(peak.top(&stacks, By::Scope).is_none());
    assert_eq!((history.figures().peak_bytes, history.peak().active_bytes), (100, 30));
    let why = Limits::new().peak_bytes(99).broken_by(&snapshot).unwrap();
    assert!(why.starts_with("peak: 100 bytes on device 0, more than 99\n  70 bytes in 2 blocks"), "{why}");
    let bytes = |bytes: u64| bytes;
    let known = history.trust().unknown_before(bytes).unwrap();
    assert!(known.contains("the peak of the run (100)"), "{known}");
    // The table of owners too.
    let table = &owners(&[&snapshot])[0];
    assert_eq!(table.rows.iter().filter_map(|row| row.peak_bytes).sum::<i128>(), 100, "{table:?}");
    assert_eq!(table.rows.iter().filter_map(|row| row.now_bytes).sum::<i128>(), 20, "{table:?}");
}

#[test]
fn a_lower_peak_or_that_of_another_window_does_not() {
    for (snapshot, is_known) in
        [(lost(Some([5, 5]), 0), true), (lost(Some([50, 50]), 3), false), (lost(None, 0), false)]
    {
        let history = DeviceHistory::new(&snapshot, DEVICE);
        assert!(history.earlier_peak().is_none());
        assert_eq!(history.figures().peak_bytes, 30);
        assert_eq!(history.trust().knows_peak(), is_known);
        let checks =
            history.figures().check(&Limits::new().peak_bytes(1000).live_bytes(1000).reserved_bytes(1000));
        let in_part: Vec<&str> = history.known_in_part(&checks).iter().map(|check| &*check.what).collect();
        assert_eq!(in_part, if is_known { vec!["reserved"] } else { vec!["peak", "reserved"] });
        let bytes = |bytes: u64| bytes;
        let unknown = history.trust().unknown_before(bytes).unwrap();
        assert_eq!(unknown.contains("peaks are those of the last 4 events"), !is_known, "{unknown}");
    }
}
