//! Each rule broken by one small change, and PyTorch's own dumps.
//!
//! Over 400 lines because the table of changes is one table: a row a case.

use memreel_testing::repository;
use std::collections::BTreeSet;

use memreel_snapshot::{
    Address, Snapshot,
    model::TraceEntry,
    pickle,
    validate::{Finding, Rule, validate},
};
use serde_json::{Value, json};

/// The base of the only segment of `valid.pickle`.
const BASE: u64 = 0x7f12_0000_0000;

fn fixture(name: &str) -> Snapshot {
    pickle::load(repository("fixtures").join(name)).unwrap()
}

/// The example of the format's page, put right where it breaks its own rules
/// 28 (its `snapshot` event says 5120 bytes of 3584) and 34 (a scope without end).
fn valid() -> Value {
    let mut json = serde_json::to_value(fixture("synthetic/valid.pickle")).unwrap();
    json["device_traces"][0][8]["size"] = json!(3584);
    let mut end = json["external_annotations"][0].clone();
    end["stage"] = json!("END");
    json["external_annotations"].as_array_mut().unwrap().push(end);
    json
}

fn findings(json: &Value) -> Vec<Finding> {
    validate(&serde_json::from_value(json.clone()).unwrap())
}

/// `E21 W23` and so on, each once.
fn kinds(findings: &[Finding]) -> String {
    let set: BTreeSet<_> = findings.iter().map(|f| (f.rule.number(), f.severity.letter())).collect();
    set.iter().map(|(rule, letter)| format!("{letter}{rule}")).collect::<Vec<_>>().join(" ")
}

fn list<'a>(json: &'a mut Value, pointer: &str) -> &'a mut Vec<Value> {
    json.pointer_mut(pointer).unwrap().as_array_mut().unwrap()
}

fn remove(json: &mut Value, pointer: &str, key: &str) -> Value {
    json.pointer_mut(pointer).unwrap().as_object_mut().unwrap().shift_remove(key).unwrap()
}

fn set(json: &mut Value, pointer: &str, value: Value) {
    *json.pointer_mut(pointer).unwrap() = value;
}

fn put(json: &mut Value, pointer: &str, key: &str, value: Value) {
    json.pointer_mut(pointer).unwrap()[key] = value;
}

/// Puts an entry like `device_traces[0][1]` before the one at `index`, at its time.
fn entry(json: &mut Value, index: usize, action: &str, addr: u64, size: u64) {
    let trace = list(json, "/device_traces/0");
    let mut entry = trace[1].clone();
    entry["action"] = json!(action);
    entry["addr"] = json!(addr);
    entry["size"] = json!(size);
    entry["time_us"] = trace[index.min(trace.len() - 1)]["time_us"].clone();
    trace.insert(index, entry);
}

/// A free segment of 20 MiB, far from the first.
fn segment(json: &mut Value, device: i64, address: u64) {
    let segments = list(json, "/segments");
    let mut segment = segments[0].clone();
    let size = 20 << 20;
    for (key, value) in
        [("total_size", size), ("allocated_size", 0), ("active_size", 0), ("requested_size", 0)]
    {
        segment[key] = json!(value);
    }
    segment["device"] = json!(device);
    segment["address"] = json!(address);
    segment["segment_type"] = json!("large");
    segment["blocks"] =
        json!([{"address": address, "size": size, "requested_size": 0, "state": "inactive", "frames": []}]);
    segments.push(segment);
}

fn expandable(json: &mut Value) {
    set(json, "/segments/0/is_expandable", json!(true));
    set(json, "/device_traces/0/0/action", json!("segment_map"));
}

/// Drops the entries whose action is among these.
fn skip(json: &mut Value, actions: &[&str]) {
    list(json, "/device_traces/0").retain(|entry| !actions.contains(&entry["action"].as_str().unwrap()));
}

const FAR: u64 = BASE + (1 << 30);

/// What is done to the valid snapshot, and all that is then found.
type Row = (&'static str, fn(&mut Value), &'static str);

const ROWS: &[Row] = &[
    ("nothing", |_| {}, ""),
    ("no segments", |j| drop(remove(j, "", "segments")), "E1 W23"),
    ("no device_traces", |j| drop(remove(j, "", "device_traces")), "E1"),
    ("a dict of segments", |j| set(j, "/segments", json!({})), "E1 W23"),
    ("a trace that is no list", |j| set(j, "/device_traces/1", json!(3)), "E1"),
    (
        "segments last",
        |j| {
            let segments = remove(j, "", "segments");
            put(j, "", "segments", segments);
        },
        "P1",
    ),
    ("host_segments: None", |j| put(j, "", "host_segments", json!(null)), "P1"),
    ("no trace at all", |j| set(j, "/device_traces", json!([])), "E2"),
    ("a device without trace", |j| segment(j, 5, FAR), "E2"),
    ("a negative device", |j| segment(j, -1, FAR), "E2 P11"),
    ("a device that is a text", |j| set(j, "/segments/0/device", json!("0")), "E2 W23"),
    ("a time beyond 2^53", |j| set(j, "/device_traces/0/8/time_us", json!(1i64 << 60)), "E4"),
    ("a stream that is a bool", |j| set(j, "/device_traces/0/1/stream", json!(true)), "E4"),
    ("a size that is a float", |j| set(j, "/device_traces/0/1/size", json!(1.0)), "E4 W21"),
    (
        "an address of 2^63 or more",
        |j| set(j, "/device_traces/0/1/addr", json!(1u64 << 63)),
        "W4 W21 E23 W27 W33",
    ),
    ("a negative block address", |j| set(j, "/segments/0/blocks/0/address", json!(-5)), "E4"),
    ("a negative segment address", |j| set(j, "/segments/0/address", json!(-5)), "E4 W23"),
    (
        "a huge number in the settings",
        |j| put(j, "/allocator_settings", "max_split_size", json!(u64::MAX)),
        "E4",
    ),
    ("a huge number deep in an unknown key", |j| put(j, "/segments/0", "odd", json!([[[1i64 << 60]]])), "E4"),
    ("__proto__ in an entry", |j| put(j, "/device_traces/0/1", "__proto__", json!(1)), "E6"),
    (
        "__proto__ in the settings",
        |j| put(j, "/allocator_settings/roundup_power2_divisions", "__proto__", json!(1)),
        "E6",
    ),
    ("a BOM in a frame", |j| set(j, "/segments/0/frames/0/name", json!("\u{feff}main")), "E6"),
    ("a BOM in metadata", |j| set(j, "/device_traces/0/1/user_metadata", json!("\u{feff}x")), "E6"),
    ("a segment without stream", |j| drop(remove(j, "/segments/0", "stream")), "E8 W23"),
    ("a segment without blocks", |j| drop(remove(j, "/segments/0", "blocks")), "E8 W23"),
    ("blocks that are no list", |j| set(j, "/segments/0/blocks", json!(7)), "E8 W23"),
    ("a segment without is_expandable", |j| drop(remove(j, "/segments/0", "is_expandable")), "P8"),
    ("a pool beyond 2^53", |j| set(j, "/segments/0/segment_pool_id", json!([0, 1i64 << 60])), "E4"),
    ("a pool of three", |j| set(j, "/segments/0/segment_pool_id", json!([0, 0, 0])), "P8"),
    ("a block without frames", |j| drop(remove(j, "/segments/0/blocks/3", "frames")), "P8"),
    ("a block without address", |j| drop(remove(j, "/segments/0/blocks/1", "address")), "P8"),
    (
        "a device at the end of its segment",
        |j| {
            let device = remove(j, "/segments/0", "device");
            put(j, "/segments/0", "device", device);
        },
        "P8",
    ),
    (
        "blocks that do not fill their segment",
        |j| set(j, "/segments/0/blocks/3/size", json!(2_093_056)),
        "E9",
    ),
    (
        "a block of no bytes",
        |j| {
            let mut block = j["segments"][0]["blocks"][3].clone();
            block["size"] = json!(0);
            block["state"] = json!("active_allocated");
            list(j, "/segments/0/blocks").push(block);
            set(j, "/segments/0/blocks/4/address", json!(BASE + (2 << 20)));
        },
        "E9 W23",
    ),
    ("a block without size", |j| drop(remove(j, "/segments/0/blocks/3", "size")), "E9 W23"),
    ("a segment elsewhere", |j| set(j, "/segments/0/address", json!(BASE + (64 << 20))), "E10 E26 E27"),
    ("a first block elsewhere", |j| set(j, "/segments/0/blocks/0/address", json!(BASE + (64 << 20))), "E10"),
    ("a block elsewhere", |j| set(j, "/segments/0/blocks/1/address", json!(BASE + 1536)), "E10"),
    ("overlapping segments", |j| segment(j, 0, BASE + (1 << 20)), "E11"),
    ("the same range on another device", |j| segment(j, 1, BASE), ""),
    ("segments out of order", |j| segment(j, 0, BASE - (64 << 20)), "P11"),
    (
        "the documented state",
        |j| set(j, "/segments/0/blocks/2/state", json!("active_awaiting_free")),
        "E12 W23",
    ),
    ("a block without state", |j| drop(remove(j, "/segments/0/blocks/2", "state")), "E12 W23"),
    (
        "more requested than there is",
        |j| {
            set(j, "/segments/0/blocks/1/requested_size", json!(2049));
            set(j, "/segments/0/requested_size", json!(2749));
            set(j, "/device_traces/0/2/size", json!(2049));
        },
        "E13",
    ),
    ("frames without requested_size", |j| drop(remove(j, "/segments/0/blocks/1", "requested_size")), "E13"),
    (
        "more requested than there is, once",
        |j| set(j, "/segments/0/blocks/3/requested_size", json!(1u64 << 40)),
        "",
    ),
    ("a wrong allocated_size", |j| set(j, "/segments/0/allocated_size", json!(0)), "W14"),
    ("a wrong active_size", |j| set(j, "/segments/0/active_size", json!(3072)), "W14"),
    ("a wrong requested_size", |j| set(j, "/segments/0/requested_size", json!(2747)), "W14"),
    ("no allocated_size", |j| drop(remove(j, "/segments/0", "allocated_size")), "E14"),
    ("a large segment of 2 MiB", |j| set(j, "/segments/0/segment_type", json!("large")), "P15"),
    ("an unknown segment_type", |j| set(j, "/segments/0/segment_type", json!("huge")), "P15"),
    (
        "free neighbours and an odd size",
        |j| {
            let mut block = j["segments"][0]["blocks"][3].clone();
            block["size"] = json!(100);
            set(j, "/segments/0/blocks/3/size", json!(2_093_468));
            block["address"] = json!(BASE + 3584 + 2_093_468);
            list(j, "/segments/0/blocks").push(block);
        },
        "P15",
    ),
    ("frames: None", |j| set(j, "/device_traces/0/1/frames", json!(null)), "E16"),
    ("a frame without line", |j| drop(remove(j, "/device_traces/0/1/frames/0", "line")), "E16"),
    ("a line beyond 2^53", |j| set(j, "/device_traces/0/1/frames/0/line", json!(1i64 << 60)), "E4"),
    ("a negative line", |j| set(j, "/device_traces/0/1/frames/0/line", json!(-2)), "E16"),
    ("forward_frames of ints", |j| put(j, "/device_traces/0/1", "forward_frames", json!([1])), "E16"),
    ("an unknown action", |j| entry(j, 3, "user_defined", BASE, 7), "W17"),
    ("no action", |j| drop(remove(j, "/device_traces/0/8", "action")), "E17 W21"),
    ("an action that is no text", |j| set(j, "/device_traces/0/8/action", json!(4)), "E17 W21"),
    ("an oom with addr", |j| entry(j, 3, "oom", 7, 512), "E18"),
    ("no addr", |j| drop(remove(j, "/device_traces/0/1", "addr")), "E18 W21"),
    ("no size", |j| drop(remove(j, "/device_traces/0/1", "size")), "E18 W21"),
    (
        "an alloc of nothing at no place",
        |j| {
            entry(j, 3, "alloc", 0, 0);
            entry(j, 4, "free_completed", 0, 0);
        },
        "W18 W21 E27",
    ),
    ("categories without unknown", |j| put(j, "/device_traces/0/1", "category", json!("activation")), "E19"),
    ("the category unknown", |j| put(j, "/device_traces/0/1", "category", json!("unknown")), ""),
    ("no time", |j| drop(remove(j, "/device_traces/0/1", "time_us")), "W20"),
    ("a time too early", |j| set(j, "/device_traces/0/5/time_us", json!(5)), "W20"),
    ("a time of 0", |j| set(j, "/device_traces/0/5/time_us", json!(0)), ""),
    ("entries swapped", |j| list(j, "/device_traces/0").swap(5, 6), "E20 W21 E21 E22 E23"),
    ("an alloc twice", |j| entry(j, 3, "alloc", BASE + 1024, 2048), "E21"),
    (
        "a free twice",
        |j| {
            entry(j, 6, "free_requested", BASE, 1000);
            entry(j, 7, "free_completed", BASE, 1000);
        },
        "E21",
    ),
    ("a free_requested twice", |j| entry(j, 5, "free_requested", BASE, 1000), "E21"),
    ("a completion without request", |j| drop(list(j, "/device_traces/0").remove(4)), "W21"),
    ("a free of the unknown", |j| drop(list(j, "/device_traces/0").drain(..2)), "W21 W33"),
    ("a free of another size", |j| set(j, "/device_traces/0/4/size", json!(999)), "E22"),
    ("a completion of another size", |j| set(j, "/device_traces/0/5/size", json!(1001)), "E22"),
    (
        "a live block freed",
        |j| {
            entry(j, 8, "free_requested", BASE, 600);
            entry(j, 9, "free_completed", BASE, 600);
        },
        "E23",
    ),
    ("a pending block live", |j| drop(list(j, "/device_traces/0").remove(7)), "E23"),
    ("a free block live", |j| entry(j, 8, "alloc", BASE + 8192, 512), "E23"),
    ("a live block never allocated", |j| drop(list(j, "/device_traces/0").drain(..3)), "W21 W23 W33"),
    (
        "another requested_size",
        |j| {
            set(j, "/segments/0/blocks/1/requested_size", json!(2000));
            set(j, "/segments/0/requested_size", json!(2700));
        },
        "E24",
    ),
    (
        "two lives at one place",
        |j| {
            entry(j, 3, "alloc", BASE + 1536, 100);
            entry(j, 4, "free_requested", BASE + 1536, 100);
            entry(j, 5, "free_completed", BASE + 1536, 100);
        },
        "E25",
    ),
    ("a segment of another size", |j| set(j, "/device_traces/0/0/size", json!(1 << 20)), "E26"),
    ("a segment that is nowhere", |j| entry(j, 0, "segment_alloc", FAR, 2 << 20), "E26"),
    ("a freed segment where one is", |j| entry(j, 1, "segment_free", BASE, 2 << 20), "E26"),
    (
        "a segment that came and went",
        |j| {
            entry(j, 0, "segment_alloc", FAR, 2 << 20);
            entry(j, 1, "segment_free", FAR, 2 << 20);
        },
        "",
    ),
    ("a mapped range", expandable, ""),
    (
        "a range mapped in two",
        |j| {
            expandable(j);
            set(j, "/device_traces/0/0/size", json!(1 << 20));
            entry(j, 1, "segment_map", BASE + (1 << 20), 1 << 20);
        },
        "",
    ),
    (
        "a range unmapped and mapped again",
        |j| {
            expandable(j);
            entry(j, 3, "segment_unmap", BASE + (1 << 20), 1 << 20);
            entry(j, 4, "segment_map", BASE + (1 << 20), 1 << 20);
        },
        "",
    ),
    (
        "a range mapped too far",
        |j| {
            expandable(j);
            set(j, "/device_traces/0/0/size", json!(3 << 20));
        },
        "E26",
    ),
    (
        "a range unmapped that is mapped",
        |j| {
            expandable(j);
            entry(j, 3, "segment_unmap", BASE + (1 << 20), 1 << 20);
        },
        "E26",
    ),
    ("a block before its segment", |j| list(j, "/device_traces/0").swap(0, 1), "E27"),
    (
        "a block in no segment",
        |j| {
            entry(j, 1, "alloc", FAR, 512);
            entry(j, 2, "free_requested", FAR, 512);
            entry(j, 3, "free_completed", FAR, 512);
        },
        "E27",
    ),
    ("a block on another stream", |j| set(j, "/device_traces/0/2/stream", json!(9)), "W27"),
    ("a snapshot somewhere", |j| set(j, "/device_traces/0/8/addr", json!(BASE)), "E28"),
    ("a snapshot of another size", |j| set(j, "/device_traces/0/8/size", json!(4096)), "W28"),
    ("a snapshot with frames", |j| put(j, "/device_traces/0/8", "frames", json!([])), "P28"),
    ("free_completed skipped", |j| skip(j, &["free_completed"]), "E21 W29"),
    (
        "free_requested skipped",
        |j| {
            skip(j, &["free_requested"]);
            set(j, "/segments/0/blocks/2/state", json!("active_allocated"));
            set(j, "/segments/0/allocated_size", json!(3584));
        },
        "W21 W29",
    ),
    (
        "frees skipped",
        |j| {
            skip(j, &["free_requested", "free_completed"]);
            set(j, "/segments/0/blocks/2/state", json!("active_allocated"));
            set(j, "/segments/0/allocated_size", json!(3584));
        },
        "E21 W29",
    ),
    (
        "segment events skipped",
        |j| {
            skip(j, &["segment_alloc"]);
            entry(j, 1, "alloc", FAR, 512);
            entry(j, 2, "free_requested", FAR, 512);
            entry(j, 3, "free_completed", FAR, 512);
        },
        "E27 W29",
    ),
    ("an entry without frames", |j| drop(remove(j, "/device_traces/0/2", "frames")), "W30"),
    (
        "keys in no order",
        |j| {
            let size = remove(j, "/device_traces/0/1", "size");
            put(j, "/device_traces/0/1", "size", size);
        },
        "P31",
    ),
    (
        "a key order of the other writer",
        |j| {
            for key in ["time_us", "frames"] {
                let value = remove(j, "/device_traces/0/2", key);
                put(j, "/device_traces/0/2", key, value);
            }
        },
        "P31",
    ),
    (
        "a compile_context that is no text",
        |j| set(j, "/device_traces/0/1/compile_context", json!(null)),
        "P31",
    ),
    ("a pool_id of one", |j| put(j, "/device_traces/0/8", "pool_id", json!([0])), "P31"),
    ("an annotation without text", |j| entry(j, 3, "annotate", BASE + 1024, 2048), "W32"),
    (
        "an annotation of a free block",
        |j| {
            entry(j, 6, "annotate", BASE, 1000);
            set(j, "/device_traces/0/6/user_metadata", json!("weights"));
        },
        "W32",
    ),
    ("a ring of one", |j| drop(list(j, "/device_traces/0").drain(..8)), "W23 W33"),
    ("a scope without end", |j| drop(list(j, "/external_annotations").pop()), "P34"),
    ("an end without scope", |j| drop(list(j, "/external_annotations").remove(0)), "P34"),
    ("a scope's time beyond 2^53", |j| set(j, "/external_annotations/1/time_us", json!(1i64 << 60)), "E4"),
    (
        "a scope's time beyond 64 bits",
        |j| set(j, "/external_annotations/1/time_us", json!(u64::MAX)),
        "E4 P34",
    ),
    (
        "a scope's device beyond 2^53",
        |j| set(j, "/external_annotations/0/device", json!(1i64 << 60)),
        "E4 P34",
    ),
    ("a scope of an unknown device", |j| set(j, "/external_annotations/0/device", json!(9)), "P34"),
    ("a scope without name", |j| set(j, "/external_annotations/0/name", json!(3)), "P34"),
    ("a setting after the last", |j| put(j, "/allocator_settings", "more", json!(1)), "P35"),
    ("settings that are no dict", |j| set(j, "/allocator_settings", json!([])), "P35"),
];

#[test]
fn each_rule_is_broken_by_one_change() {
    let mut wrong = Vec::new();
    for (name, change, expected) in ROWS {
        let mut json = valid();
        change(&mut json);
        let found = findings(&json);
        // One defect is one finding.
        let mut texts: Vec<_> = found.iter().map(ToString::to_string).collect();
        texts.sort();
        assert!(texts.is_sorted_by(|one, next| one < next), "{name}: {texts:?}");
        let mut expected: Vec<&str> = expected.split_whitespace().collect();
        expected.sort_by_key(|kind| (kind[1..].parse::<u8>().unwrap(), kind.chars().next()));
        if kinds(&found) != expected.join(" ") {
            let told: Vec<_> = found.iter().map(ToString::to_string).collect();
            wrong.push(format!("{name}: not {expected:?} but\n    {}", told.join("\n    ")));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), ROWS.len(), wrong.join("\n"));
}

#[test]
fn every_rule_of_the_model_has_a_row_or_a_test() {
    let rows: BTreeSet<u8> =
        ROWS.iter().flat_map(|row| row.2.split_whitespace()).map(|kind| kind[1..].parse().unwrap()).collect();
    // 3 and 5 are about bytes; 7 and 36 need long traces, below.
    let expected: BTreeSet<u8> = (1..=36).filter(|rule| ![3, 5, 7, 36].contains(rule)).collect();
    assert_eq!(rows, expected);
}

/// PyTorch 2.0 wrote the stack of a block in its latest use.
#[test]
fn a_frame_of_a_history_is_named_where_it_is() {
    let mut json = valid();
    let block = json.pointer_mut("/segments/0/blocks/0").unwrap().as_object_mut().unwrap();
    let mut frames = block.shift_remove("frames").unwrap();
    let size = block.shift_remove("requested_size").unwrap();
    frames[0].as_object_mut().unwrap().shift_remove("line").unwrap();
    block.insert("history".into(), json!([{"addr": BASE, "real_size": size, "frames": frames}]));
    let found = findings(&json);
    let of_frames: Vec<&str> =
        found.iter().filter(|found| found.rule == Rule::Frames).map(|found| found.place.as_str()).collect();
    assert_eq!(of_frames, ["segments[0].blocks[0].history[0].frames[0]"], "{found:#?}");
}

#[test]
fn what_repeats_is_summed_up() {
    let mut json = valid();
    for n in 0..100 {
        entry(&mut json, 0, "segment_alloc", FAR + (n << 30), 2 << 20);
    }
    let found = findings(&json);
    assert_eq!((kinds(&found), found.len()), ("E26".to_owned(), 21));
    assert_eq!(found[20].what, "80 more findings like those above");
}

#[test]
fn a_bare_list_is_held_to_the_rules_for_segments_alone() {
    let mut json = valid()["segments"].take();
    assert_eq!(kinds(&findings(&json)), "E1");
    json[0]["total_size"] = json!(1 << 21 | 512);
    assert_eq!(kinds(&findings(&json)), "E1 E9 P15");
}

#[test]
fn what_no_viewer_reads_is_at_most_a_warning() {
    let mut json = valid();
    let mut pinned = json["segments"][0].clone();
    pinned["device"] = json!(-1);
    let entry = json["device_traces"][0][1].clone();
    json["host_segments"] = json!([pinned]);
    json["host_traces"] = json!([entry]);
    assert_eq!(kinds(&findings(&json)), "");
    set(&mut json, "/host_segments/0/blocks/0/size", json!(512));
    remove(&mut json, "/host_traces/0", "size");
    assert_eq!(kinds(&findings(&json)), "W9 W10 W13 W14 W18");
}

fn from_json(json: &Value) -> Snapshot {
    serde_json::from_value(json.clone()).unwrap()
}

#[test]
fn half_a_million_entries_are_many() {
    let mut snapshot = from_json(&valid());
    let mut marker = snapshot.device_traces[0][8];
    marker.size = 0;
    snapshot.device_traces[1] = vec![marker; 500_000];
    assert_eq!(kinds(&validate(&snapshot)), "W33");
    snapshot.device_traces[1] = vec![marker; 500_001];
    assert_eq!(kinds(&validate(&snapshot)), "W7");
}

/// `n` blocks allocated on the second device, then freed, oldest or newest first.
fn queue(n: u64, oldest_first: bool) -> Snapshot {
    let mut json = valid();
    segment(&mut json, 1, BASE);
    let size = (n * 512).next_multiple_of(2 << 20);
    for key in ["/segments/1/total_size", "/segments/1/blocks/0/size"] {
        set(&mut json, key, json!(size));
    }
    let mut snapshot = from_json(&json);
    let [alloc, request, complete] = [1, 4, 5].map(|index| snapshot.device_traces[0][index]);
    let at = |entry: TraceEntry, k: u64| TraceEntry {
        address: Address(BASE + k * 512),
        size: 1,
        time_us: 0,
        ..entry
    };
    let mut trace: Vec<_> = (0..n).map(|k| at(alloc, k)).collect();
    for k in 0..n {
        let k = if oldest_first { k } else { n - 1 - k };
        trace.extend([at(request, k), at(complete, k)]);
    }
    snapshot.device_traces[1] = trace;
    snapshot
}

#[test]
fn a_timeline_that_costs_seconds_is_a_warning() {
    // n blocks freed oldest first make n * (n - 1) points; twenty million are many.
    assert_eq!(kinds(&validate(&queue(4_472, true))), "");
    assert_eq!(kinds(&validate(&queue(4_473, true))), "W36");
    assert_eq!(kinds(&validate(&queue(12_001, false))), "");
}

/// PyTorch's -1 is a line that is not known.
#[test]
fn a_line_of_minus_one_is_no_line() {
    let mut file = valid();
    for line in [json!(-1), json!(u64::MAX)] {
        file["device_traces"][0][1]["frames"][0]["line"] = line;
        let snapshot = from_json(&file);
        assert_eq!(kinds(&validate(&snapshot)), "");
        let stack = snapshot.device_traces[0][1].stack;
        assert_eq!(snapshot.frames(stack).next().unwrap().line, 0);
    }
}

/// What PyTorch's own dumps have: a wrapped ring and a dump without history
/// tell of it, and nothing else has a finding of any severity.
const DUMPS: [(&str, &str); 9] = [
    ("cpp_path", ""),
    ("expandable_wrapped_ring", "W21 W23 W33"),
    ("graph_private_pools", ""),
    ("no_history", "W23"),
    ("oom", ""),
    ("oom_fragment", ""),
    ("pending_free", ""),
    ("resnet18_python_stacks", ""),
    ("transformer_all_stacks", ""),
];

#[test]
fn no_snapshot_of_pytorch_has_an_error() {
    for (name, expected) in DUMPS {
        let found = validate(&fixture(&format!("torch-2.11/snapshots/{name}.pickle")));
        assert_eq!(kinds(&found), expected, "{name}: {found:#?}");
    }
}

#[test]
fn numbers_at_the_end_of_the_range_do_not_overflow() {
    let mut snapshot = from_json(&valid());
    for entry in &mut snapshot.device_traces[0] {
        (entry.address.0, entry.size) = (u64::MAX, u64::MAX);
    }
    for segment in &mut snapshot.segments {
        (segment.address.0, segment.total_size) = (u64::MAX, u64::MAX);
        segment.blocks.iter_mut().for_each(|block| (block.address.0, block.size) = (u64::MAX, u64::MAX));
    }
    // The sums saturate to the same figure, so that rule 9 has nothing to say.
    let found = kinds(&validate(&snapshot));
    assert!(found.starts_with("E4 W4 W14"), "{found}");
}

#[test]
fn records_of_another_snapshot_have_no_keys() {
    let mut snapshot = Snapshot { device_traces: vec![vec![TraceEntry::default()]], ..Snapshot::default() };
    let mut foreign = from_json(&valid());
    snapshot.segments.append(&mut foreign.segments);
    snapshot.device_traces[0].append(&mut foreign.device_traces[0]);
    let found = kinds(&validate(&snapshot));
    assert!(found.starts_with("E8"), "{found}");
}
