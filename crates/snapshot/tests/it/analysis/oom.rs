//! Failed requests: why they failed, and whether another setting would have served them.

use std::sync::Arc;

use memreel::{
    Reel,
    device::Simulated,
    recorder::Recording,
    whatif::{Capacity, Fit, Requests},
};
use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{
        DeviceHistory,
        oom::{CauseKind, Explanation, OomReport, Served, Tried, TriedSetting, Verdict},
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
    let capacity = match report.is_limited() {
        true => Capacity::Limit(report.could_hold_bytes()..=report.could_hold_at_most_bytes()),
        false => Capacity::Device(report.could_hold_bytes()),
    };
    let requests = Requests::new(snapshot, DeviceId(0)).unwrap();
    requests.fit(report.entry, "expandable_segments:True", &capacity).unwrap()
}

#[test]
fn a_segment_that_does_not_fit_is_rounded_up() {
    // Three segments of 20 MiB are full, and 4 MiB of the device is free.
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
    // 11 MiB is free in a segment, and 28 MiB on the device.
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

/// A request that waits for a block that is large enough, and fails nevertheless: it does not search again.
#[test]
fn a_block_that_the_request_waited_for_is_named() {
    let base = 32 * MIB;
    let failed = |entries: &[(&str, u64, u64, u64)], max_split: Option<i64>| {
        let blocks = [(base + 30 * MIB, 10 * MIB, 2)];
        let mut file = serde_json::to_value(snapshot(entries, &[(base, 40 * MIB, &blocks)])).unwrap();
        if let Some(bytes) = max_split {
            file["allocator_settings"] = json!({"max_split_size": bytes});
        }
        let file: Snapshot = serde_json::from_value(file).unwrap();
        let history = DeviceHistory::new(&file, DeviceId(0));
        let causes = Explanation::new(&history, history.oom().unwrap()).causes();
        (
            causes[0].kind,
            causes[0].advice.as_ref().is_some_and(|advice| advice.starts_with("retry the request")),
        )
    };
    let unused = CauseKind::Unusable(Verdict::Unused);
    let freed = [("free_requested", base, 30 * MIB, 1), ("free_completed", base, 30 * MIB, 1)];
    let oom = ("oom", MIB, 20 * MIB, 2);
    let (alloc, other) = (("alloc", base, 30 * MIB, 1), ("alloc", base + 30 * MIB, 10 * MIB, 2));
    assert_eq!(failed(&[alloc, freed[0], other, freed[1], oom], None), (unused, true), "freed before");
    assert_eq!(failed(&[alloc, other, freed[0], freed[1], oom], Some(-1)), (unused, true), "no other reason");
    assert_eq!(failed(&[alloc, other, freed[0], freed[1], oom], None), (unused, false), "max_split_size_mb");
    assert_eq!(
        failed(&[alloc, freed[0], freed[1], other, oom], Some(-1)),
        (unused, false),
        "found, and not used"
    );
}

/// What the driver's pools of a process keep is not what others took.
#[test]
fn slack_of_the_drivers_pools_is_the_processs_own() {
    let base = 32 * MIB;
    let failed = |slack: u64| {
        let entries = [("alloc", base, 30 * MIB, 1), ("oom", MIB, 60 * MIB, 1)];
        let mut file =
            serde_json::to_value(snapshot(&entries, &[(base, 30 * MIB, &[(base, 30 * MIB, 1)])])).unwrap();
        let report = json!([0, 130 * MIB, 131 * MIB, 0, slack, 0, 0]);
        let usage = json!([{"device": 0, "name": "", "uuid": "", "reports": [report]}]);
        file["allocator_settings"] = json!({"memreel_usage": usage});
        let file: Snapshot = serde_json::from_value(file).unwrap();
        let history = DeviceHistory::new(&file, DeviceId(0));
        let explanation = Explanation::new(&history, history.oom().unwrap());
        (explanation.verdict().name(), explanation.causes()[0].bytes)
    };
    assert_eq!(failed(70 * MIB), ("free elsewhere", 70 * MIB));
    assert_eq!(failed(10 * MIB).0, "full", "it would not do");
}

/// PyTorch's settings limit no pinned memory.
#[test]
fn pinned_memory_is_limited_by_the_host() {
    let base = 32 * MIB;
    let entries = [("alloc", base, 30 * MIB, 1), ("oom", 900 * MIB, 60 * MIB, 1)];
    let finding = |name: &str| {
        let mut file =
            serde_json::to_value(snapshot(&entries, &[(base, 30 * MIB, &[(base, 30 * MIB, 1)])])).unwrap();
        let usage = json!([{"device": 0, "name": name, "uuid": "", "reports": []}]);
        file["allocator_settings"] = json!({"memreel_usage": usage});
        let file: Snapshot = serde_json::from_value(file).unwrap();
        let history = DeviceHistory::new(&file, DeviceId(0));
        let cause = Explanation::new(&history, history.oom().unwrap()).causes().swap_remove(0);
        assert_eq!(cause.kind, CauseKind::Limited);
        cause.finding
    };
    assert!(finding("NVIDIA H200").contains("torch.cuda.set_per_process_memory_fraction"));
    let of_host = finding("pinned host memory");
    assert!(
        of_host.starts_with("the host had 900.00 MiB free") && of_host.contains("ulimit -l"),
        "{of_host}"
    );
    assert!(!of_host.contains("torch"), "{of_host}");
}

/// What a person can do about a full device, with the bytes of the history.
#[test]
fn a_full_device_says_what_less_would_free() {
    let base = 32 * MIB;
    let frames = |name: &str, line: u64| {
        json!([{"name": name, "filename": "/a/model.py", "line": line},
            {"name": "_call_impl", "filename": "/lib/torch/nn/modules/module.py", "line": 1},
            {"name": "train", "filename": "/a/train.py", "line": 7}])
    };
    let entries: Vec<_> = (0..4).map(|n| ("alloc", base + n * 10 * MIB, 10 * MIB, n)).collect();
    let blocks: Vec<_> =
        entries.iter().map(|(_, address, bytes, stack)| (*address, *bytes, *stack)).collect();
    let failed = |bytes: u64, tried: &Tried| {
        let failure = [("oom", MIB, bytes, 9)];
        let file = snapshot(&[&entries[..], &failure].concat(), &[(base, 40 * MIB, &blocks)]);
        let mut file = serde_json::to_value(file).unwrap();
        for n in 0..4 {
            // Two layers, each of which leaves a block beside its result.
            let frames = frames("forward", 125 + n as u64 % 2);
            file["device_traces"][0][n]["frames"] = frames.clone();
            file["segments"][0]["blocks"][n]["frames"] = frames;
        }
        let file: Snapshot = serde_json::from_value(file).unwrap();
        let history = DeviceHistory::new(&file, DeviceId(0));
        let explained = Explanation::new(&history, history.oom().unwrap());
        explained.with_tried(tried.clone()).causes().swap_remove(0)
    };
    let nothing = Tried::default();
    let cause = failed(20 * MIB, &nothing);
    assert_eq!(cause.kind, CauseKind::Full);
    assert_eq!(
        cause.finding,
        "40.00 MiB is in use and 20.00 MiB was requested, the largest request of the history, 19.00 MiB more than is \
         free; 40.00 MiB of the memory in use is activations of a forward pass, 20.00 MiB of them allocated by forward (model.py:125)"
    );
    assert_eq!(
        cause.advice.unwrap(),
        "halving the batch size would save about 20.00 MiB of activations, and, if this is a training run, a checkpoint around each call at \
         train (train.py:7) would save 10.00 MiB of them; this request is 19.00 MiB short, \
         and what the rest of the pass needs is not in the history"
    );
    let advice = failed(22 * MIB, &nothing).advice.unwrap();
    assert!(advice.ends_with("this request is 21.00 MiB short, so half is not enough"), "{advice}");
    // A setting is the last, and a delay, unless it serves the rest of the history too.
    let mut setting = TriedSetting::new("expandable_segments:True".to_owned(), Served::new(1));
    let mut tried = Tried::default();
    tried.settings = vec![setting.clone()];
    let cause = failed(20 * MIB, &tried);
    let advice = cause.advice.unwrap();
    assert!(advice.starts_with("halving the batch size would save about 20.00 MiB"), "{advice}");
    assert!(advice.contains("is not in the history; only a stopgap: PYTORCH_"), "{advice}");
    assert_eq!(cause.conf, None);
    (setting.num_after, setting.num_served_after) = (7, 7);
    tried.settings = vec![setting];
    let cause = failed(20 * MIB, &tried);
    assert!(cause.advice.unwrap().starts_with("PYTORCH_"));
    assert_eq!(cause.conf.as_deref(), Some("expandable_segments:True"));
}

/// A device that had enough was not taken by others, whatever they have of it.
#[test]
fn a_device_with_room_is_not_occupied() {
    let base = 32 * MIB;
    let file = snapshot(
        &[("alloc", base, 30 * MIB, 1), ("oom", 400 * MIB, 60 * MIB, 1)],
        &[(base, 30 * MIB, &[(base, 30 * MIB, 1)])],
    );
    let history = DeviceHistory::new(&file, DeviceId(0));
    let report = history.oom().unwrap().of_device(800 * MIB);
    let kinds: Vec<_> = Explanation::new(&history, report).causes().iter().map(|cause| cause.kind).collect();
    assert_eq!(kinds, [CauseKind::Limited]);
}

/// Segments that are more than half full pin memory too, and those of the other kind of pool or of another stream do not.
#[test]
fn what_pins_is_in_segments_that_could_serve() {
    let base = 64 * MIB;
    let at = |n: u64| base + n * 64 * MIB;
    let blocks: Vec<[(u64, u64, u64); 1]> = (0..6).map(|n| [(at(n), 35 * MIB, 7)]).collect();
    let mut segments: Vec<_> =
        blocks[..4].iter().zip(0..).map(|(block, n)| (at(n), 60 * MIB, &block[..])).collect();
    // Of the small pool, and of another stream, with more of it free.
    let (small, other) = ([(at(4), 512, 8)], [(at(5), 512, 9)]);
    segments.extend([(at(4), 2 * MIB, &small[..]), (at(5), 64 * MIB, &other[..])]);
    let mut file = serde_json::to_value(snapshot(&[("oom", 0, 90 * MIB, 1)], &segments)).unwrap();
    file["segments"][4]["segment_type"] = json!("small");
    file["segments"][5]["stream"] = json!(5);
    let file: Snapshot = serde_json::from_value(file).unwrap();
    let history = DeviceHistory::new(&file, DeviceId(0));
    let found = history.fragmentation(history.end());
    assert_eq!(found.wanted.map(|wanted| (wanted.bytes, wanted.has_failed)), Some((90 * MIB, true)));
    let pinned: Vec<_> = found.pinned.iter().map(|of| (of.free_bytes, of.used_bytes)).collect();
    assert_eq!(pinned, [(25 * MIB, 35 * MIB); 4]);
    let causes = Explanation::new(&history, history.oom().unwrap()).causes();
    let finding = &causes[0].finding;
    assert!(
        finding.ends_with(
            "; 35.00 MiB blocks from f (x.py:7) keep 4 segments with 100.00 MiB free from being released"
        ),
        "{finding}"
    );
}

/// A request that fails while Adam makes the states of 20 parameters: 12 have both, one has the first.
#[test]
fn states_that_are_still_to_come_are_counted() {
    let base = 32 * MIB;
    let frames = |name: &str, file: &str, line: u64| json!([{"name": name, "filename": file, "line": line}, {"name": "main", "filename": "/a/train.py", "line": 9}]);
    let gradient = frames("torch::autograd::AccumulateGrad::apply", "??", 0);
    let state = |line: u64| frames("_init_group", "/lib/torch/optim/adam.py", line);
    let failed = |n_first: u64, n_second: u64, request: Value| {
        let kinds = [(20, gradient.clone()), (n_first, state(178)), (n_second, state(182))];
        let stacks: Vec<Value> =
            kinds.iter().flat_map(|(n, frames)| std::iter::repeat_n(frames.clone(), *n as usize)).collect();
        let blocks: Vec<_> =
            (0..20 + n_first + n_second).map(|at| (base + at * 4 * MIB, 4 * MIB, 1)).collect();
        let mut entries: Vec<_> =
            blocks.iter().map(|(at, bytes, line)| ("alloc", *at, *bytes, *line)).collect();
        entries.push(("oom", 0, 4 * MIB, 1));
        let file = snapshot(&entries, &[(base, 4 * MIB * blocks.len() as u64, &blocks)]);
        let mut file = serde_json::to_value(file).unwrap();
        for (at, stack) in stacks.iter().enumerate() {
            file["device_traces"][0][at]["frames"] = stack.clone();
        }
        for block in file["segments"][0]["blocks"].as_array_mut().unwrap() {
            let at = (block["address"].as_u64().unwrap() - base) / (4 * MIB);
            if block["state"] == "active_allocated" {
                block["frames"] = stacks[at as usize].clone();
            }
        }
        file["device_traces"][0][stacks.len()]["frames"] = request;
        let file: Snapshot = serde_json::from_value(file).unwrap();
        let history = DeviceHistory::new(&file, DeviceId(0));
        Explanation::new(&history, history.oom().unwrap()).causes()
    };
    // Of 80 MiB of each kind, 52 of the first and 48 of the second are made.
    let causes = failed(13, 12, state(182));
    let words = "; 60.00 MiB of optimizer states is still to come (12 of 20 parameters have theirs)";
    assert!(causes.len() == 1 && causes[0].finding.ends_with(words), "{causes:?}");
    assert!(
        causes[0].advice.as_ref().unwrap().contains("the states to come are 60.00 MiB short"),
        "{causes:?}"
    );
    // In the first state of all, the optimizer may have more kinds.
    let causes = failed(0, 0, state(178));
    let words = "; at least 80.00 MiB of optimizer states is still to come (0 of 20 parameters have theirs)";
    assert!(causes[0].finding.ends_with(words), "{causes:?}");
    // Another request waits for none.
    let causes = failed(13, 12, frames("forward", "/a/model.py", 3));
    assert!(!causes[0].finding.contains("to come"), "{causes:?}");
}

/// Where the size of the device is not known, memory that is gone may be that of others or a limit.
#[test]
fn what_is_gone_is_of_others_or_of_a_limit() {
    let base = 32 * MIB;
    let entries = [
        ("segment_alloc", base, 60 * MIB, 1),
        ("segment_alloc", base + 64 * MIB, 30 * MIB, 1),
        ("segment_free", base, 60 * MIB, 1),
        ("alloc", base + 64 * MIB, 30 * MIB, 1),
        ("oom", MIB, 40 * MIB, 1),
    ];
    let at = base + 64 * MIB;
    let file = snapshot(&entries, &[(at, 30 * MIB, &[(at, 30 * MIB, 1)])]);
    let history = DeviceHistory::new(&file, DeviceId(0));
    let cause = Explanation::new(&history, history.oom().unwrap()).causes().swap_remove(0);
    assert_eq!((cause.kind, cause.bytes), (CauseKind::Occupied, 59 * MIB));
    assert!(
        cause.finding.contains("others have taken 59.00 MiB of the device since, or a limit was set"),
        "{cause:?}"
    );
}

/// A request that nothing could serve has no advice about less of something else.
#[test]
fn a_request_larger_than_the_device_is_named() {
    let base = 32 * MIB;
    let file = snapshot(
        &[("alloc", base, 30 * MIB, 1), ("oom", MIB, 900 * MIB, 1)],
        &[(base, 30 * MIB, &[(base, 30 * MIB, 1)])],
    );
    let history = DeviceHistory::new(&file, DeviceId(0));
    let cause = Explanation::new(&history, history.oom().unwrap()).causes().swap_remove(0);
    assert_eq!(
        (cause.kind, cause.advice.as_deref()),
        (
            CauseKind::Full,
            Some(
                "the request alone exceeds the 31.00 MiB that the process could hold: allocate less at once"
            )
        )
    );
}

/// Freed memory that waits for a stream is no memory in use.
#[test]
fn what_waits_is_a_finding_with_its_call() {
    use memreel_snapshot::analysis::SiteFinding;
    let base = 32 * MIB;
    let entries = [
        // A trace without any completion lacks them.
        ("alloc", base, 10 * MIB, 3),
        ("free_requested", base, 10 * MIB, 3),
        ("free_completed", base, 10 * MIB, 3),
        ("alloc", base, 10 * MIB, 1),
        ("alloc", base + 10 * MIB, 20 * MIB, 2),
        ("alloc", base + 30 * MIB, 30 * MIB, 2),
        ("free_requested", base + 10 * MIB, 20 * MIB, 2),
        ("free_requested", base + 30 * MIB, 30 * MIB, 2),
    ];
    let file = snapshot(&entries, &[]);
    let history = DeviceHistory::new(&file, DeviceId(0));
    assert_eq!(history.waiting(Moment(7)).map(|waiting| waiting.bytes), Some(20 * MIB));
    let waiting = history.waiting(history.end()).unwrap();
    let finding = waiting.finding("f (x.py:2)");
    assert_eq!(finding, "50.00 MiB in 2 blocks, allocated by f (x.py:2), is freed and waits for a stream");
    assert!(waiting.advice().is_some());
    assert_eq!(history.waiting(Moment(6)), None);
}
