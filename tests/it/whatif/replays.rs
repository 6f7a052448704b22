//! Recorded histories under other settings, compared with what PyTorch did on an H100.
//!
//! Over 400 lines: every case reads the same recordings the same way.

use memreel_testing::repository;
use std::path::{Path, PathBuf};

use memreel::{
    BlockState, DeviceId, Error, Reel, Snapshot,
    analysis::DeviceHistory,
    device::Simulated,
    history::{Confidence, Moment},
    pickle,
    recorder::{Context, Recording},
    snapshot::Block,
    validate::{Severity, validate},
    whatif::{self, Replay, ReplayAnswer, Requests, Sweep, grid},
};
use serde_json::{Value, json};

use super::model_recording::{read, snapshot};
use crate::fixtures::snapshots;

const SETTINGS: [(&str, &str); 4] = [
    ("default", ""),
    ("expandable_segments_True", "expandable_segments:True"),
    ("max_split_size_mb_64", "max_split_size_mb:64"),
    ("roundup_power2_divisions_8", "roundup_power2_divisions:8"),
];

const GPT_TRAIN_REQUESTS: usize = 5472;

/// The snapshot of a replay without a limit.
fn replayed(recorded: &Snapshot, requests: &Requests, conf: &str) -> Snapshot {
    whatif::replayed(recorded, &[requests], conf, None).unwrap()
}

/// The answer of a replay without a limit.
fn ask(requests: &Requests, conf: &str) -> ReplayAnswer {
    Replay::new(requests).conf(conf).run().unwrap()
}

fn requests(snapshot: &Snapshot) -> Requests {
    Requests::new(snapshot, DeviceId(0)).unwrap()
}

/// The peak of reserved bytes by a recording's events, and how many blocks were asked for.
fn by_hand(recording: &Value) -> (u64, usize) {
    let (mut reserved, mut peak, mut n) = (0, 0, 0);
    for event in recording["events"].as_array().unwrap() {
        let bytes = event[2].as_u64().unwrap();
        match event[0].as_str().unwrap() {
            "segment_alloc" | "segment_map" => reserved += bytes,
            "segment_free" | "segment_unmap" => reserved -= bytes,
            "alloc" => n += 1,
            _ => {}
        }
        peak = peak.max(reserved);
    }
    (peak, n)
}

fn percent_off(ours: u64, theirs: u64) -> f64 {
    (ours as f64 / theirs as f64 - 1.0) * 100.0
}

#[test]
fn the_default_recording_foretells_the_peaks_of_other_settings() {
    let requests = requests(&snapshot(&read("default")));
    assert_eq!(requests.confidence(), Confidence::Sure);
    for (file, conf) in SETTINGS {
        let (recorded, n_requests) = by_hand(&read(file));
        let answer = ask(&requests, conf);
        assert_eq!((requests.len(), n_requests), (GPT_TRAIN_REQUESTS, GPT_TRAIN_REQUESTS), "{conf}");
        let runs = [&answer.outcome, &answer.rising, &answer.falling];
        println!("{conf:?}: recorded {recorded}, {:?}", runs.map(|run| run.reserved_peak_bytes));
        for run in runs {
            let off = percent_off(run.reserved_peak_bytes, recorded);
            assert!(off.abs() <= 1.0, "{conf:?}: {} is {off:.2} % off", run.reserved_peak_bytes);
        }
        assert_eq!(answer.outcome.reserved_peak_bytes, recorded, "{conf:?}: README.md has these figures");
    }
}

/// `[action, address, size, stream]` of every event.
fn events(snapshot: &Snapshot) -> Vec<(&'static str, u64, u64, i64)> {
    let event =
        |e: &memreel::snapshot::TraceEntry| (e.action.unwrap().name(), e.address.0, e.size, e.stream.0);
    snapshot.device_traces[0].iter().map(event).collect()
}

fn errors(snapshot: &Snapshot) -> Vec<String> {
    let findings = validate(snapshot).into_iter().filter(|finding| finding.severity == Severity::Error);
    findings.map(|finding| finding.to_string()).collect()
}

#[test]
fn every_setting_replayed_at_its_own_addresses_is_equal_event_for_event() {
    for (file, conf) in SETTINGS {
        let recorded = snapshot(&read(file));
        let replayed = replayed(&recorded, &requests(&recorded), conf);
        let (ours, theirs) = (events(&replayed), events(&recorded));
        let first = ours.iter().zip(&theirs).position(|(a, b)| a != b);
        assert_eq!((first, ours.len()), (None, theirs.len()), "{conf:?}");
        let shape = |s: &Snapshot| -> Vec<_> {
            s.segments.iter().map(|s| (s.address, s.total_size, s.allocated_size, s.requested_size)).collect()
        };
        assert_eq!(shape(&replayed), shape(&recorded), "{conf:?}");
        assert_eq!(errors(&replayed), [""; 0], "{conf:?}");
    }
}

fn scenarios() -> PathBuf {
    repository("fixtures/torch-2.11/scenarios")
}

fn scenario_recording(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A scenario's recording as a snapshot.
fn scenario(name: &str) -> Snapshot {
    snapshot(&scenario_recording(&scenarios().join(name).with_extension("json")))
}

#[test]
fn every_scenario_under_its_own_setting_and_limit_has_the_recorded_peak() {
    let mut n_scenarios = 0;
    for file in std::fs::read_dir(scenarios()).unwrap() {
        let path = file.unwrap().path();
        let recording = scenario_recording(&path);
        let requests = requests(&snapshot(&recording));
        let replay = Replay::new(&requests).conf(recording["conf"].as_str().unwrap());
        let outcome = replay.limit_bytes(recording["memory_limit"].as_u64()).run().unwrap().falling;
        assert_eq!(outcome.reserved_peak_bytes, by_hand(&recording).0, "{}", path.display());
        n_scenarios += 1;
    }
    assert_eq!(n_scenarios, 24);
}

#[test]
fn delayed_completions_and_an_emptied_cache_stay_at_their_place() {
    for name in
        ["cross_stream", "streams_do_not_share", "random_big_streams", "coalesce_orders", "random_big"]
    {
        let recorded = scenario(name);
        let requests = requests(&recorded);
        assert_eq!(requests.warnings(), [""; 0], "{name}");
        let answer = ask(&requests, "");
        assert!(answer.has_recorded_addresses, "{name}");
        let replayed = replayed(&recorded, &requests, "");
        let (ours, theirs) = (events(&replayed), events(&recorded));
        let first = ours.iter().zip(&theirs).position(|(a, b)| a != b);
        assert_eq!(first.map(|i| (i, ours[i], theirs[i])), None, "{name}");
        assert_eq!(ours.len(), theirs.len(), "{name}");
    }
}

fn fixture(name: &str) -> PathBuf {
    repository("fixtures/torch-2.11/snapshots").join(name)
}

#[test]
fn a_wrapped_ring_is_replayed_from_where_it_begins() {
    let recorded = pickle::load(fixture("expandable_wrapped_ring.pickle")).unwrap();
    let requests = requests(&recorded);
    assert_eq!(
        (requests.n_pre_existing(), requests.len()),
        (15, 18),
        "10 never seen, 4 first seen freed, 1 under way"
    );
    assert_eq!(requests.pre_existing_bytes(), 188_433_204);
    let [warning] = requests.warnings() else { panic!("{:?}", requests.warnings()) };
    assert!(
        warning.contains("15 blocks")
            && warning.contains("as if the setting had been changed at that moment"),
        "{warning}"
    );
    // The gaps between the old blocks are where they were.
    assert_eq!(requests.confidence(), Confidence::Sure);
    let recorded_peak_bytes = requests.recorded().reserved_peak_bytes;
    assert_eq!(requests.baseline().peak_bytes, recorded_peak_bytes);
    let answer = ask(&requests, "expandable_segments:True");
    assert!(answer.has_recorded_addresses);
    assert_eq!(answer.outcome.reserved_peak_bytes, recorded_peak_bytes);
}

/// A file says how many bytes were requested, or the snapshot has them when it is read.
#[test]
fn a_block_of_no_requested_bytes_is_not_a_request() {
    let mut recorded = pickle::load(fixture("expandable_wrapped_ring.pickle")).unwrap();
    let traced: Vec<_> = recorded.device_traces[0].iter().map(|entry| entry.address).collect();
    let mut blocks = recorded.segments.iter_mut().flat_map(|segment| &mut segment.blocks);
    let is_old = |block: &&mut Block| {
        block.state == Some(BlockState::ActiveAllocated) && !traced.contains(&block.address)
    };
    blocks.find(is_old).unwrap().requested_size = 0;
    assert_eq!(requests(&recorded).n_pre_existing(), 14, "one less than in the test above");
}

/// `(action, address, size)`.
type Entry = (&'static str, u64, u64);

/// A trace, an entry each ten milliseconds, over segments of `[address, size, blocks of [size, state]]`.
fn small(entries: &[Entry], segments: &Value) -> Snapshot {
    let entry = |(i, (action, address, size)): (usize, &Entry)| {
        let key = if *action == "oom" { "device_free" } else { "addr" };
        json!({"action": action, key: address, "size": size, "stream": 0, "time_us": 1000 + i * 10_000})
    };
    let entries: Vec<Value> = entries.iter().enumerate().map(entry).collect();
    serde_json::from_value(json!({"segments": segments, "device_traces": [entries]})).unwrap()
}

const SEGMENT: u64 = 0x7000_0000_0000;

fn refusal(entries: &[Entry]) -> Error {
    Requests::new(&small(entries, &json!([])), DeviceId(0)).expect_err("a contradiction")
}

#[test]
fn a_history_that_contradicts_itself_names_the_entry() {
    let alloc = ("alloc", SEGMENT, 1000);
    let [request, complete] = ["free_requested", "free_completed"].map(|action| (action, SEGMENT, 1000));
    let rows: [(&[Entry], usize, &str); 10] = [
        (&[alloc, alloc], 1, "double alloc"),
        (&[alloc, ("alloc", SEGMENT + 999, 10)], 1, "double alloc"),
        (&[alloc, request, alloc, complete], 2, "whose free is not completed"),
        (&[alloc, request, complete, request], 3, "second free"),
        (&[alloc, request, request, complete], 2, "second free"),
        (&[alloc, request, complete, complete], 3, "second time"),
        (&[alloc, ("free_requested", SEGMENT, 999)], 1, "999 bytes"),
        (&[alloc, request, ("free_completed", SEGMENT, 999)], 1, "999 bytes"),
        (&[alloc, ("alloc", SEGMENT * 2, 1 << 60)], 1, "2^60"),
        (&[("alloc", SEGMENT, 0)], 0, "0 bytes"),
    ];
    for (entries, at, what) in rows {
        let error = refusal(entries);
        assert!(error.is_history() && error.to_string().contains(what), "{error}");
        assert_eq!(error.entry(), Some(at), "{error}");
        assert!(error.to_string().contains("device 0, entry"), "{error}");
    }
}

#[test]
fn entries_out_of_order_are_refused_even_where_no_block_shows_it() {
    let entries = json!([
        {"action": "alloc", "addr": SEGMENT, "size": 512, "stream": 0, "time_us": 50_000},
        {"action": "alloc", "addr": SEGMENT + 512, "size": 512, "stream": 0, "time_us": 10_000},
    ]);
    let snapshot = |entries: &Value| -> Snapshot {
        serde_json::from_value(json!({"segments": [], "device_traces": [entries]})).unwrap()
    };
    let error = Requests::new(&snapshot(&entries), DeviceId(0)).unwrap_err();
    assert_eq!(error.entry(), Some(1));
    assert!(error.to_string().contains("out of order"), "{error}");
    let mut jitter = entries.clone();
    jitter[1]["time_us"] = json!(49_990);
    let error = Requests::new(&snapshot(&jitter), DeviceId(0)).unwrap_err();
    assert!(error.to_string().contains("out of order"), "the blocks are not there at the end: {error}");
    jitter[0]["action"] = json!("free_requested");
    jitter[1]["action"] = json!("free_requested");
    assert!(Requests::new(&snapshot(&jitter), DeviceId(0)).is_ok(), "ten microseconds alone are jitter");
    jitter[1]["time_us"] = json!(10_000);
    let error = Requests::new(&snapshot(&jitter), DeviceId(0)).unwrap_err();
    assert!(error.to_string().contains("out of order, 40000 us"), "nothing else shows it: {error}");
    // The ring of snapshot-format.md 2.5: two older entries exported last.
    let real = pickle::load(fixture("resnet18_python_stacks.pickle")).unwrap();
    let mut rotated = real.clone();
    rotated.device_traces[0].rotate_left(600);
    let error = Requests::new(&rotated, DeviceId(0)).unwrap_err();
    assert_eq!(error.entry(), Some(rotated.device_traces[0].len() - 600), "{error}");
}

#[test]
fn a_history_that_is_missing_is_refused() {
    let snapshot = pickle::load(fixture("no_history.pickle")).unwrap();
    let error = Requests::new(&snapshot, DeviceId(0)).unwrap_err();
    assert!(error.is_history() && error.entry().is_none(), "{error}");
    let error = Requests::new(&snapshot, DeviceId(1)).unwrap_err();
    assert!(error.is_misuse(), "{error}");
}

const GIB: u64 = 1 << 30;

/// Two blocks come and go, their segment goes back, and a third block needs one.
fn with_release(stacks: [Option<&str>; 2], last: u64, unit: u64) -> Snapshot {
    let frames = |stack: Option<&str>| match stack {
        Some(name) => json!([{"name": name, "filename": "x.py", "line": 1}]),
        None => json!([]),
    };
    let size = last * unit;
    let entries = json!([
        {"action": "segment_alloc", "addr": SEGMENT, "size": 40 * unit},
        {"action": "alloc", "addr": SEGMENT, "size": 40 * unit},
        {"action": "free_requested", "addr": SEGMENT, "size": 40 * unit},
        {"action": "free_completed", "addr": SEGMENT, "size": 40 * unit},
        {"action": "segment_free", "addr": SEGMENT, "size": 40 * unit, "frames": frames(stacks[0])},
        {"action": "segment_alloc", "addr": SEGMENT, "size": size, "frames": frames(stacks[1])},
        {"action": "alloc", "addr": SEGMENT, "size": size, "frames": frames(stacks[1])},
    ]);
    let block =
        json!({"address": SEGMENT, "size": size, "requested_size": size, "state": "active_allocated"});
    let segment =
        json!({"device": 0, "address": SEGMENT, "total_size": size, "stream": 0, "blocks": [block]});
    serde_json::from_value(json!({"segments": [segment], "device_traces": [entries]})).unwrap()
}

/// Of a run without a limit, in that unit.
fn peak_and_frees(snapshot: &Snapshot, unit: u64) -> (u64, u64) {
    let outcome = ask(&requests(snapshot), "").outcome;
    (outcome.reserved_peak_bytes / unit, outcome.num_device_free)
}

#[test]
fn an_emptied_cache_is_told_from_a_request_that_emptied_it() {
    let rows = [
        // Whose stack it is decides.
        ([Some("empty_cache"), Some("forward")], 60, true),
        ([Some("forward"), Some("forward")], 60, false),
        // Without stacks: 40 + 60 GiB is more than was ever held, so memory was full.
        ([None, None], 60, false),
    ];
    for (stacks, last_gib, is_emptied) in rows {
        let expected = if is_emptied { (60, 1) } else { (100, 0) };
        assert_eq!(peak_and_frees(&with_release(stacks, last_gib, GIB), GIB), expected, "{stacks:?}");
    }
    // Nor is any device full at 100 MiB.
    assert_eq!(peak_and_frees(&with_release([None, None], 60, 1 << 20), 1 << 20), (60, 1));
}

#[test]
fn without_stacks_memory_that_was_held_before_is_memory_that_was_there() {
    // 40 GiB, then 20: both fit into the 100 that are held at the end.
    let entries = [
        ("segment_alloc", SEGMENT, 40 * GIB),
        ("alloc", SEGMENT, 40 * GIB),
        ("free_requested", SEGMENT, 40 * GIB),
        ("free_completed", SEGMENT, 40 * GIB),
        ("segment_free", SEGMENT, 40 * GIB),
        ("segment_alloc", SEGMENT, 50 * GIB),
        ("alloc", SEGMENT, 50 * GIB),
        ("segment_alloc", SEGMENT + 100 * GIB, 50 * GIB),
        ("alloc", SEGMENT + 100 * GIB, 50 * GIB),
    ];
    let segment = |address: u64| {
        let block = json!({"size": 50 * GIB, "requested_size": 50 * GIB, "state": "active_allocated"});
        json!({"device": 0, "address": address, "total_size": 50 * GIB, "stream": 0, "blocks": [block]})
    };
    let snapshot = small(&entries, &json!([segment(SEGMENT), segment(SEGMENT + 100 * GIB)]));
    assert_eq!(peak_and_frees(&snapshot, GIB), (100, 1));
}

#[test]
fn a_limit_fails_the_request_that_failed_on_the_gpu() {
    let snapshot = pickle::load(fixture("oom_fragment.pickle")).unwrap();
    let requests = requests(&snapshot);
    let free = |conf: &str| ask(&requests, conf).outcome;
    let limited = |conf: &str| Replay::new(&requests).conf(conf).limit_bytes(2 << 30).run().unwrap().outcome;
    let outcome = limited("");
    let first = outcome.first_oom.unwrap();
    assert_eq!((outcome.num_ooms, first.request, first.entry), (1, 158, 362), "as on the H100");
    assert_eq!(outcome.reserved_peak_bytes, requests.recorded().reserved_peak_bytes);
    assert_eq!((outcome.num_device_alloc, outcome.num_device_free), (72, 2), "as on the H100");
    assert_eq!(free("").num_ooms, 0, "without a limit nothing is refused");
    assert_eq!(limited("expandable_segments:True").num_ooms, 0, "fragmentation was the reason");
    let fraction = |part: &str| limited(&format!("per_process_memory_fraction:{part}")).num_ooms;
    assert_eq!(fraction("0.5"), 1, "half of the device is more than the limit");
    assert!(fraction("0.0125") > 1, "half of the limit");
}

#[test]
fn a_block_whose_free_waits_for_a_stream_is_not_unused() {
    let snapshot = pickle::load(fixture("pending_free.pickle")).unwrap();
    let outcome = ask(&requests(&snapshot), "").outcome;
    // A block of 32 MiB waits for a stream when the last segment is allocated, for a block of 512 bytes.
    let blocks_bytes = (20 << 20) + (32 << 20) + 512;
    assert_eq!(
        (outcome.reserved_peak_bytes, outcome.waste_at_peak_bytes),
        (70 << 20, (70 << 20) - blocks_bytes)
    );
}

#[test]
fn private_pools_are_apart_in_a_replay_too() {
    let snapshot = pickle::load(fixture("graph_private_pools.pickle")).unwrap();
    let replayed = replayed(&snapshot, &requests(&snapshot), "");
    let pools =
        |s: &Snapshot| s.segments.iter().map(|s| (s.address, s.total_size, s.pool)).collect::<Vec<_>>();
    assert_eq!(pools(&replayed), pools(&snapshot));
    assert_eq!(events(&replayed), events(&snapshot));
}

#[test]
fn a_sweep_gives_the_answers_of_single_questions_in_order() {
    let requests = [requests(&pickle::load(fixture("transformer_all_stacks.pickle")).unwrap())];
    let answers = Sweep::new(&requests).run().unwrap();
    let one_by_one: Vec<_> = grid(None).iter().map(|conf| ask(&requests[0], conf)).collect();
    assert_eq!(answers, one_by_one);
    let chosen =
        Sweep::new(&requests).confs(["", "expandable_segments:True"]).limit_bytes(8 << 30).run().unwrap();
    assert_eq!(
        chosen.iter().map(|answer| &*answer.conf).collect::<Vec<_>>(),
        ["", "expandable_segments:True"]
    );
    assert!(grid(Some(1)).len() > grid(None).len());
    assert!(grid(Some(1)).iter().all(|conf| conf.parse::<memreel::allocator::Settings>().is_ok()));
}

#[test]
fn every_real_dump_replays_and_what_is_written_is_valid() {
    let mut n_replayed = 0;
    for (file, recorded) in snapshots() {
        let requests = match Requests::new(&recorded, DeviceId(0)) {
            Ok(requests) => requests,
            Err(error) => {
                assert!(error.is_history(), "{file}: {error}");
                continue;
            }
        };
        for conf in grid(None) {
            ask(&requests, &conf);
        }
        for conf in ["", "expandable_segments:True"] {
            let replayed = replayed(&recorded, &requests, conf);
            assert_eq!(errors(&replayed), [""; 0], "{file} {conf:?}");
            let again = Requests::new(&replayed, DeviceId(0)).unwrap();
            // The first request of a history that begins late counts as one before it.
            let n_first = requests.len() - again.len();
            assert!(n_first <= usize::from(requests.n_pre_existing() > 0), "{file} {conf:?}");
        }
        n_replayed += 1;
    }
    assert!(n_replayed >= 25, "only {n_replayed} dumps were replayed");
}

#[test]
fn a_replayed_history_keeps_stacks_and_times() {
    let recorded = pickle::load(fixture("resnet18_python_stacks.pickle")).unwrap();
    let replayed = replayed(&recorded, &requests(&recorded), "expandable_segments:True");
    let told = |s: &Snapshot, action: &str| -> Vec<_> {
        let is = |e: &&memreel::snapshot::TraceEntry| e.action.is_some_and(|a| a.name() == action);
        let all = s.device_traces[0].iter().filter(is);
        all.map(|e| {
            (e.time_us, e.size, e.stack.map(|stack| s.stacks.frames(stack).cloned().collect::<Vec<_>>()))
        })
        .collect()
    };
    assert_eq!(told(&replayed, "alloc"), told(&recorded, "alloc"));
    let names = |s: &Snapshot| -> Vec<(u64, Vec<String>)> {
        let active = s
            .segments
            .iter()
            .flat_map(|segment| &segment.blocks)
            .filter(|b| b.state.is_some_and(memreel::BlockState::is_active));
        let stack = |b: &memreel::snapshot::Block| {
            let frames = s.stacks.frames(b.stack.unwrap());
            (b.requested_size, frames.map(|frame| format!("{}:{}", frame.name, frame.line)).collect())
        };
        let mut all: Vec<_> = active.map(stack).collect();
        all.sort();
        all
    };
    assert_eq!(names(&replayed), names(&recorded), "who holds the live blocks");
    assert_eq!(replayed.external_annotations.len(), recorded.external_annotations.len());
}

/// A simulated allocator has memory for each stream, and a file can name as many as it has entries.
#[test]
fn streams_beyond_the_first_thousands_are_the_default_one() {
    let alloc =
        |at: u64| json!({"action": "alloc", "addr": at << 21, "size": 512, "stream": at, "time_us": at});
    let trace: Vec<Value> = (0..4200).map(alloc).collect();
    let snapshot = json!({"segments": [], "device_traces": [trace]});
    let snapshot: Snapshot = serde_json::from_value(snapshot).unwrap();
    let requests = requests(&snapshot);
    let warnings = requests.warnings().join("\n");
    assert!(warnings.contains("streams beyond the first 4096: 103; the replay treats"), "{warnings}");
    // A small segment for each stream; the default one's blocks share one.
    let outcome = ask(&requests, "").outcome;
    assert_eq!((outcome.num_device_alloc, outcome.reserved_peak_bytes), (4097, 4097 * (2 << 20)));
}

/// The devices of a file are read in one pass over its segments.
#[test]
fn the_requests_of_several_devices_are_those_of_each() {
    let alloc =
        |device: u64| json!([{"action": "alloc", "addr": device << 30, "size": 512 + device, "stream": 0}]);
    let snapshot = json!({"segments": [], "device_traces": [alloc(1), alloc(2)]});
    let snapshot: Snapshot = serde_json::from_value(snapshot).unwrap();
    let devices = [DeviceId(1), DeviceId(0)];
    let both = Requests::of_devices(&snapshot, &devices).unwrap();
    for (requests, device) in both.iter().zip(devices) {
        let alone = Requests::new(&snapshot, device).unwrap();
        assert_eq!((requests.device(), ask(requests, "").outcome), (device, ask(&alone, "").outcome));
    }
    assert!(Requests::of_devices(&snapshot, &[DeviceId(2)]).unwrap_err().is_misuse());
}

#[test]
fn the_curve_of_a_replay_has_its_peak_and_its_end() {
    for name in ["resnet18_python_stacks.pickle", "transformer_all_stacks.pickle", "oom_fragment.pickle"] {
        let recorded = pickle::load(fixture(name)).unwrap();
        let requests = requests(&recorded);
        for conf in ["", "expandable_segments:True", "roundup_power2_divisions:8"] {
            let replay = Replay::new(&requests).conf(conf).bounds(requests.bounds());
            let curve = replay.reserved().unwrap();
            let peak_bytes = curve.iter().map(|point| point.reserved_bytes).max().unwrap();
            assert_eq!(peak_bytes, replay.run().unwrap().outcome.reserved_peak_bytes, "{name} {conf:?}");
            let end_bytes: u64 =
                replayed(&recorded, &requests, conf).segments.iter().map(|of| of.total_size).sum();
            assert_eq!(curve.last().unwrap().reserved_bytes, end_bytes, "{name} {conf:?}");
            assert_eq!(curve[0].moment, Moment::START, "{name} {conf:?}");
            assert!(curve.is_sorted_by_key(|point| point.moment), "{name} {conf:?}");
        }
    }
}

/// A limit that the text of settings asks for is in what the failure shows; another fraction is one of the device.
#[test]
fn a_fraction_of_the_device_is_applied_once() {
    const GIB: u64 = 1 << 30;
    for (conf, limit_bytes) in [("per_process_memory_fraction:0.5", None), ("", Some(40 * GIB))] {
        let device = Simulated::new(80 * GIB);
        let reel = Reel::builder().device(device).settings(conf.parse().unwrap());
        let reel = reel.history(Recording::all().context(Context::None)).build().unwrap();
        if limit_bytes.is_some() {
            reel.allocators()[0].set_memory_limit(limit_bytes);
        }
        let blocks: Vec<_> =
            std::iter::repeat_with(|| reel.alloc(3 * GIB / 2)).map_while(Result::ok).collect();
        let snapshot = reel.snapshot();
        let history = DeviceHistory::new(&snapshot, DeviceId(0));
        let causes = whatif::explain(&history, history.oom().unwrap()).causes();
        let advice = causes[0].advice.as_ref().unwrap();
        assert!(
            blocks.len() == 26 && advice.starts_with("raise the limit: 40.50 GiB would"),
            "{conf:?}: {advice}"
        );

        let requests = requests(&snapshot);
        let served = |conf: &str| {
            let run = Replay::new(&requests).conf(conf).bounds(requests.bounds()).run().unwrap();
            run.outcome.first_oom.map_or(27, |failed| failed.request)
        };
        let fractions =
            [0.4, 0.5, 0.6].map(|fraction| served(&format!("per_process_memory_fraction:{fraction}")));
        assert_eq!(fractions, [21, 26, 27], "{conf:?}: 32, 40 and 48 GiB");
        assert_eq!(served(requests.recorded().usable_conf()), 26, "{conf:?}");
    }
}
