//! Failed requests: why they failed, and whether another setting would have served them.

use std::sync::Arc;

use memreel::{
    Reel,
    device::Simulated,
    recorder::Recording,
    whatif::{Fit, Requests, Room},
};
use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{
        DeviceHistory,
        oom::{OomReport, Verdict},
    },
    history::Moment,
};
use serde_json::{Value, json};

use super::questions::{MIB, snapshot};

/// One segment of 30 MiB with a block in its middle, and a request that fails.
fn failed(request: u64, device_free: u64) -> Verdict {
    let base = 32 * MIB;
    let snapshot =
        snapshot(&[("oom", device_free, request, 1)], &[(base, 30 * MIB, &[(base + 14 * MIB, 2 * MIB, 2)])]);
    DeviceHistory::new(&snapshot, DeviceId(0)).oom().unwrap().verdict
}

#[test]
fn a_failed_request_has_its_reason() {
    assert_eq!(failed(16 * MIB, 0), Verdict::Fragmented);
    assert_eq!(failed(28 * MIB, 0), Verdict::Fragmented);
    assert_eq!(failed(30 * MIB, 0), Verdict::Full);
    assert_eq!(failed(30 * MIB, 2 * MIB), Verdict::Fragmented, "with what the device has it would do");
    assert_eq!(failed(30 * MIB, 30 * MIB), Verdict::Limited, "the device had it");
    assert_eq!(failed(28 * MIB, 64 * MIB), Verdict::Fragmented, "limited, but enough was free");
    // A small request cannot use a large segment.
    assert_eq!(failed(512, 0), Verdict::Elsewhere);
}

fn report(snapshot: &Snapshot) -> OomReport {
    DeviceHistory::new(snapshot, DeviceId(0)).oom().expect("a request failed")
}

/// What a reel records on a device of `device_mib` with these settings: blocks of these sizes, and then a
/// request that fails.
fn recorded(
    device_mib: u64,
    limit_mib: Option<u64>,
    settings: &str,
    blocks: &[u64],
    request: u64,
) -> Snapshot {
    let device = Arc::new(Simulated::new(device_mib * MIB));
    let settings = settings.parse().unwrap();
    let reel = Reel::builder().device(device).settings(settings).history(Recording::all()).build().unwrap();
    reel.allocators()[0].set_memory_limit(limit_mib.map(|limit| limit * MIB));
    let _blocks: Vec<_> = blocks.iter().map(|bytes| reel.alloc(*bytes).unwrap()).collect();
    assert!(reel.alloc(request).unwrap_err().is_out_of_memory());
    reel.snapshot()
}

/// Whether the failed request would have been served with expandable segments.
fn with_expandable(snapshot: &Snapshot) -> Fit {
    let report = report(snapshot);
    let room = match report.is_limited() {
        true => Room::Limit(report.could_hold_bytes()..=report.could_hold_at_most_bytes()),
        false => Room::Device(report.could_hold_bytes()),
    };
    let requests = Requests::new(snapshot, DeviceId(0)).unwrap();
    requests.fit(report.entry, "expandable_segments:True", &room).unwrap()
}

#[test]
fn a_segment_that_does_not_fit_is_rounded_up() {
    // Three segments of 20 MiB are full, and 4 MiB of the device are free.
    let blocks = [vec![4_000_000], vec![4 * MIB; 14]].concat();
    let file = recorded(64, None, "", &blocks, 4 * MIB);
    let found = report(&file);
    assert_eq!((found.verdict, found.verdict.name()), (Verdict::RoundedUp, "rounded up"));
    assert_eq!((found.free_here_bytes, found.device_free_bytes), (0, 4 * MIB));
    assert_eq!((found.segment_bytes, found.fits_compacted()), (20 * MIB, false));
    // Pages of 20 MiB do not fit either.
    assert_eq!(with_expandable(&file), Fit::No);
    let file = recorded(64, None, "expandable_segments:True", &blocks, 4 * MIB);
    assert!(report(&file).is_expandable);
    assert_eq!(with_expandable(&file), Fit::No);
}

#[test]
fn pages_count_as_whole_pages() {
    let found = report(&recorded(75, None, "expandable_segments:True", &[40 * MIB], 30 * MIB));
    assert_eq!((found.segment_bytes, found.device_free_bytes), (40 * MIB, 35 * MIB));
    assert_eq!((found.verdict, found.is_limited()), (Verdict::RoundedUp, false));
}

#[test]
fn a_replay_shows_whether_expandable_segments_fit() {
    // 11 MiB are free in a segment, and 28 MiB on the device.
    let file = recorded(60, None, "", &[9 * MIB, 12 * MIB], 30 * MIB);
    let found = report(&file);
    assert_eq!((found.verdict, found.fits_compacted()), (Verdict::Fragmented, true));
    assert_eq!((found.could_hold_bytes(), found.could_hold_at_most_bytes()), (60 * MIB, 60 * MIB));
    // 51 MiB take three pages.
    assert_eq!(with_expandable(&file), Fit::Yes);
    // On a smaller device they do not fit, although no more is requested than it has.
    let file = recorded(55, None, "", &[9 * MIB, 12 * MIB], 30 * MIB);
    assert!(!report(&file).never_fits());
    assert_eq!(with_expandable(&file), Fit::No);
    // A limit leaves an unknown number of bytes, fewer than the segment. In place of five segments with 14 MiB
    // in each, four pages hold the blocks, and the limit counts 30 MiB more.
    let file = recorded(1024, Some(120), "", &[7 * MIB; 10], 30 * MIB);
    let found = report(&file);
    assert_eq!((found.is_limited(), found.could_hold_bytes()), (true, 100 * MIB));
    assert_eq!(found.could_hold_at_most_bytes(), 130 * MIB - 1);
    assert_eq!(with_expandable(&file), Fit::Perhaps);
    // What was there before the history is not known.
    let mut file = recorded(60, None, "", &[9 * MIB, 12 * MIB], 30 * MIB);
    file.device_traces[0].drain(..2);
    assert_eq!(with_expandable(&file), Fit::Perhaps);
}

#[test]
fn more_than_the_device_never_fits() {
    let found = report(&recorded(60, None, "", &[30 * MIB], 31 * MIB));
    assert_eq!((found.verdict, found.never_fits()), (Verdict::Full, true));
}

/// A default pool with 14 MiB in one piece, and a private pool with 5 and 10 MiB.
fn with_pools(pool: Option<[u64; 2]>) -> Snapshot {
    let (base, private) = (32 * MIB, 128 * MIB);
    let file = snapshot(
        &[("oom", 0, 12 * MIB, 1)],
        &[
            (base, 30 * MIB, &[(base + 14 * MIB, 2 * MIB, 2)]),
            (private, 20 * MIB, &[(private + 5 * MIB, 5 * MIB, 3)]),
        ],
    );
    let mut file = serde_json::to_value(&file).unwrap();
    file["segments"][1]["segment_pool_id"] = json!([0, 1]);
    if let Some(pool) = pool {
        file["device_traces"][0][0]["pool_id"] = json!(pool);
    }
    serde_json::from_value(file).unwrap()
}

#[test]
fn a_request_is_judged_by_its_pool() {
    let found = report(&with_pools(Some([0, 1])));
    assert_eq!((found.free_here_bytes, found.largest_free_bytes), (15 * MIB, 10 * MIB));
    assert_eq!((found.free_elsewhere_bytes, found.verdict), (28 * MIB, Verdict::Fragmented));
    let found = report(&with_pools(Some([0, 0])));
    assert_eq!((found.free_here_bytes, found.largest_free_bytes), (28 * MIB, 14 * MIB));
    assert_eq!((found.pool.is_some(), found.verdict), (true, Verdict::Unused));
    // Before PyTorch 2.12, entries do not name their pool.
    let found = report(&with_pools(None));
    assert_eq!((found.pool, found.verdict), (None, Verdict::Unused));
    assert_eq!(found.free_here_bytes, 28 * MIB);
}

#[test]
fn pending_blocks_are_not_live() {
    let base = 32 * MIB;
    let entries = [
        ("alloc", base, 30 * MIB, 1),
        ("alloc", base + 30 * MIB, 10 * MIB, 2),
        ("free_requested", base, 30 * MIB, 1),
        ("oom", MIB, 20 * MIB, 2),
    ];
    let blocks = [(base, 30 * MIB, 1), (base + 30 * MIB, 10 * MIB, 2)];
    let mut file = serde_json::to_value(snapshot(&entries, &[(base, 40 * MIB, &blocks)])).unwrap();
    file["segments"][0]["blocks"][0]["state"] = Value::from("active_pending_free");
    let file: Snapshot = serde_json::from_value(file).unwrap();
    let history = DeviceHistory::new(&file, DeviceId(0));
    let found = history.oom().unwrap();
    assert_eq!((found.pending_bytes, found.n_pending), (30 * MIB, 1));
    assert_eq!((found.totals.allocated_bytes, found.totals.active_bytes), (10 * MIB, 40 * MIB));
    assert_eq!(found.verdict, Verdict::Pending);
    let sums = [history.held_at(Moment(4)), history.pending_at(Moment(4))];
    assert_eq!(sums.map(|groups| (groups.len(), groups[0].bytes)), [(1, 10 * MIB), (1, 30 * MIB)]);
}
