//! `export::convert`: what other tools read says what the snapshot says.

use memreel_testing::repository;
use std::collections::{BTreeMap, HashMap};

use memreel_snapshot::{
    Action, BlockState, DeviceId, Snapshot,
    analysis::ShownFrames,
    export::{Format, convert},
    model::{StackIndex, StackTable},
};
use serde_json::Value;

use crate::{fixtures::snapshots, recorded::recorded};

fn converted(snapshot: &Snapshot, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    convert(snapshot, format, &mut bytes).unwrap();
    bytes
}

fn text(snapshot: &Snapshot, format: Format) -> String {
    String::from_utf8(converted(snapshot, format)).unwrap()
}

fn requested_in_use(snapshot: &Snapshot) -> u64 {
    let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
    blocks.filter(|block| block.state.unwrap().is_active()).map(|block| block.requested_size).sum()
}

fn samples() -> Vec<Snapshot> {
    let folder = repository("fixtures/torch-2.11/snapshots");
    let real = ["oom", "expandable_wrapped_ring", "transformer_all_stacks"];
    let real =
        real.map(|name| memreel_snapshot::pickle::load(folder.join(format!("{name}.pickle"))).unwrap());
    real.into_iter().chain([recorded(1, 300), recorded(2, 300)]).collect()
}

#[test]
fn csv_has_a_line_for_each_event() {
    for snapshot in samples() {
        let text = text(&snapshot, Format::Csv);
        let mut lines = text.lines();
        let heading =
            "device,event,time_us,action,address,size_bytes,stream,scope,site,stack,device_free_bytes";
        assert_eq!(lines.next(), Some(heading));
        let events = snapshot.device_traces.iter().enumerate();
        let events = events.flat_map(|(device, trace)| trace.iter().map(move |entry| (device, entry)));
        for ((device, entry), line) in events.zip(lines.by_ref()) {
            let cells: Vec<&str> = line.splitn(8, ',').collect();
            assert_eq!(cells[0], device.to_string());
            assert_eq!((cells[2], cells[3]), (&*entry.time_us.to_string(), entry.action.unwrap().name()));
            // A failed request is at no address.
            let (address, free) = match entry.action {
                Some(Action::Oom) => (String::new(), entry.device_free_bytes().to_string()),
                _ => (format!("{:#x}", entry.address), String::new()),
            };
            assert_eq!((cells[4], cells[5]), (&*address, &*entry.size.to_string()));
            assert_eq!(line.rsplit(',').next(), Some(&*free));
        }
        assert_eq!(lines.next(), None);
    }
}

#[test]
fn csv_tells_the_site_of_a_stack_and_its_frames_if_asked() {
    let json = serde_json::json!({"segments": [], "device_traces": [[
        entry("alloc", &[("CUDACachingAllocator::malloc", "a.cpp"), ("at::empty", "b.cpp"), ("step", "c.py"), ("main", "d.py")]),
        entry("free_requested", &[("at::detail::empty_cuda", "e.cpp"), ("a,b", "f.cpp")]),
        entry("free_completed", &[]),
        entry("alloc", &[("CUDACachingAllocator::malloc", "a.cpp"), ("at::empty", "b.cpp"), ("step", "c.py"), ("main", "d.py")]),
    ]]});
    let snapshot: Snapshot = serde_json::from_value(json).unwrap();
    let cells = |format| -> Vec<String> {
        let text = text(&snapshot, format);
        text.lines().map(|line| line.splitn(9, ',').nth(8).unwrap().to_owned()).collect()
    };
    assert_eq!(
        cells(Format::Csv),
        ["site,stack,device_free_bytes", "c.py:7:step,1,", "\"f.cpp:7:a,b\",2,", ",0,", "c.py:7:step,1,"]
    );
    let frames = "a.cpp:7:CUDACachingAllocator::malloc;b.cpp:7:at::empty;c.py:7:step;d.py:7:main";
    let heading = "site,stack,frames,device_free_bytes";
    assert_eq!(cells(Format::CsvStacks)[..2], [heading, &format!("c.py:7:step,1,{frames},")]);
    assert_eq!(cells(Format::CsvStacks)[3], ",0,,");
}

fn entry(action: &str, frames: &[(&str, &str)]) -> Value {
    let frame = |(name, file): &(&str, &str)| serde_json::json!({"name": name, "filename": file, "line": 7});
    let frames: Vec<Value> = frames.iter().map(frame).collect();
    serde_json::json!({"action": action, "addr": 1, "size": 2, "stream": 0, "time_us": 3, "frames": frames})
}

/// serde_json is the oracle, which makes the text of every stack again for every entry.
#[test]
fn json_is_what_serde_makes_of_it() {
    let snapshots = snapshots();
    assert!(snapshots.len() > 25);
    for (name, snapshot) in snapshots {
        assert!(text(&snapshot, Format::Json) == serde_json::to_string(&snapshot).unwrap(), "{name}");
    }
    for snapshot in samples() {
        assert!(text(&snapshot, Format::Json) == serde_json::to_string(&snapshot).unwrap());
    }
    let odd = serde_json::json!({
        "segments": [], "device_traces": [[entry("a\n\t\u{1}\u{8}\u{c}\\", &[("\"é\u{2028}", "\r")])], []],
        "settings": {"x": [1, -2, 1.5, 0.1, true, null, {}, [], "\u{7f}"], "big": u64::MAX},
    });
    let mut snapshot: Snapshot = serde_json::from_value(odd.clone()).unwrap();
    assert_eq!(text(&snapshot, Format::Json), serde_json::to_string(&snapshot).unwrap());
    // Exponents have another form, and the same value.
    let mut odd = odd;
    odd["settings"] = serde_json::json!([1e300, 1e-7, -1.25e-300, 1e16, 0.00001]);
    snapshot = serde_json::from_value(odd.clone()).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text(&snapshot, Format::Json)).unwrap(), odd);
}

#[test]
fn csv_quotes_what_would_break_it() {
    let mut json = serde_json::to_value(recorded(1, 20)).unwrap();
    json["device_traces"][0][0]["user_metadata"] = serde_json::json!("a \"b\", c\nd");
    let text = text(&serde_json::from_value(json).unwrap(), Format::Csv);
    assert!(text.contains(",\"a \"\"b\"\", c\nd\","), "{text}");
}

#[test]
fn folded_lines_add_up_to_what_is_in_use() {
    for snapshot in samples() {
        let text = text(&snapshot, Format::Folded);
        let bytes = text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
        assert_eq!(bytes.sum::<u64>(), requested_in_use(&snapshot));
        let stacks: Vec<&str> = text.lines().map(|line| line.rsplit_once(' ').unwrap().0).collect();
        assert!(stacks.is_sorted() && stacks.windows(2).all(|pair| pair[0] != pair[1]), "each stack once");
    }
    let snapshot = &samples()[2];
    let block = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
    let mut block = block.filter(|block| block.state == Some(BlockState::ActiveAllocated));
    let shown = ShownFrames::new(snapshot);
    let frame = block.find_map(|block| shown.innermost(block.stack?)).unwrap();
    let innermost = format!(":{}:{} ", frame.line, frame.name);
    assert!(text(snapshot, Format::Folded).contains(&innermost), "the innermost frame is the last");
}

#[test]
fn perfetto_counts_as_the_history_does() {
    for snapshot in samples() {
        let json: Value = serde_json::from_slice(&converted(&snapshot, Format::Perfetto)).unwrap();
        let events = json["traceEvents"].as_array().unwrap();
        for (device, trace) in snapshot.device_traces.iter().enumerate() {
            let own = || events.iter().filter(|event| event["pid"] == device);
            let Some(last) = own().rfind(|event| event["ph"] == "C") else {
                assert!(trace.is_empty());
                continue;
            };
            let segments = || snapshot.segments.iter().filter(|segment| segment.device == device.into());
            let reserved: u64 = segments().map(|segment| segment.total_size).sum();
            let active: u64 = segments().map(|segment| segment.requested_size).sum();
            assert_eq!(last["args"]["reserved"], reserved);
            assert_eq!(last["args"]["active"], active);
            assert!(
                own().filter(|event| event["ph"] == "C").all(|e| e["args"]["active"].as_i64() >= Some(0))
            );
            // Every slice of a block ends, once, and not before it begins.
            let mut open: HashMap<u64, i64> = HashMap::new();
            let mut n_slices = 0;
            for event in own().filter(|event| event["cat"] == "block") {
                let (id, time) = (event["id"].as_u64().unwrap(), event["ts"].as_i64().unwrap());
                if event["ph"] == "b" {
                    assert_eq!(open.insert(id, time), None);
                    n_slices += 1;
                } else {
                    assert!(open.remove(&id).unwrap() <= time);
                }
            }
            assert!(open.is_empty());
            let allocs = trace.iter().filter(|entry| entry.action == Some(Action::Alloc)).count();
            assert!(n_slices >= allocs, "{n_slices} slices for {allocs} allocs");
        }
    }
}

/// `skip_actions` left out the completions: the second block at the address ends the first.
#[test]
fn perfetto_ends_a_block_whose_address_is_allocated_again() {
    let entry = |action: &str, size: u64, time_us: i64| serde_json::json!({"action": action, "addr": 4096, "size": size, "stream": 0, "time_us": time_us, "frames": []});
    let trace = [entry("alloc", 1000, 5), entry("free_requested", 1000, 7), entry("alloc", 600, 9)];
    let snapshot = serde_json::json!({"segments": [], "device_traces": [trace]});
    let snapshot: Snapshot = serde_json::from_value(snapshot).unwrap();
    let json: Value = serde_json::from_slice(&converted(&snapshot, Format::Perfetto)).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let counters = events.iter().filter(|event| event["ph"] == "C");
    let active: Vec<u64> = counters.map(|event| event["args"]["active"].as_u64().unwrap()).collect();
    assert_eq!(active, [0, 1000, 0, 600], "as `timeline --csv` counts");
    let slices = events.iter().filter(|event| event["cat"] == "block");
    let first = slices.filter(|event| event["id"] == 1);
    let times: Vec<i64> = first.map(|event| event["ts"].as_i64().unwrap()).collect();
    assert_eq!(times, [0, 2], "it ends at the request");
}

/// The counters are the totals of the same moments, as `timeline --csv` prints them.
#[test]
fn perfetto_without_completions_counts_as_the_timeline_does() {
    let [base, mib] = [1_u64 << 30, 1 << 20];
    let at = |n: u64| base + n % 3 * mib;
    let entries = (0..40).flat_map(|n: u64| [("alloc", n), ("free_requested", n)]).map(|(action, n)| {
        serde_json::json!({"action": action, "addr": at(n), "size": 1000 + n, "stream": 0, "time_us": 100 + n})
    });
    let segment = serde_json::json!({"action": "segment_alloc", "addr": base, "size": 4 * mib, "stream": 0, "time_us": 99});
    let trace: Vec<Value> = [segment].into_iter().chain(entries).collect();
    let snapshot = serde_json::json!({"segments": [], "device_traces": [trace]});
    let snapshot: Snapshot = serde_json::from_value(snapshot).unwrap();
    let history = memreel_snapshot::analysis::DeviceHistory::new(&snapshot, DeviceId(0));
    let expected: Vec<(u64, u64)> = history.totals().map(|t| (t.active_bytes, t.reserved_bytes)).collect();
    let json: Value = serde_json::from_slice(&converted(&snapshot, Format::Perfetto)).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let counters = events.iter().filter(|event| event["ph"] == "C");
    let counted = |event: &Value| {
        (event["args"]["active"].as_u64().unwrap(), event["args"]["reserved"].as_u64().unwrap())
    };
    assert_eq!(counters.map(counted).collect::<Vec<_>>(), expected);
    let n = |kind: &str| events.iter().filter(|event| event["ph"] == kind).count();
    assert_eq!((n("b"), n("e")), (40, 40), "every slice ends");
}

/// Clocks of two threads may differ by microseconds.
#[test]
fn a_slice_does_not_end_before_it_begins() {
    let entry = |action: &str, time_us: u64| serde_json::json!({"action": action, "addr": 1 << 20, "size": 512, "stream": 0, "time_us": time_us});
    let trace = [
        entry("alloc", 1000),
        entry("free_requested", 1005),
        entry("free_completed", 200),
        entry("snapshot", 1010),
    ];
    let snapshot = serde_json::json!({"segments": [], "device_traces": [trace]});
    let snapshot: Snapshot = serde_json::from_value(snapshot).unwrap();
    let json: Value = serde_json::from_slice(&converted(&snapshot, Format::Perfetto)).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let time = |kind: &str| events.iter().find(|event| event["ph"] == kind).unwrap()["ts"].as_i64().unwrap();
    assert_eq!(time("e") - time("b"), 5, "the end has the time of the request before it");
    let counters: Vec<i64> =
        events.iter().filter(|event| event["ph"] == "C").map(|event| event["ts"].as_i64().unwrap()).collect();
    assert!(counters.is_sorted(), "{counters:?}");
}

/// A time of 0 is an event that could not be dated.
#[test]
fn an_event_without_a_time_is_beside_its_neighbour() {
    let mut snapshot = recorded(1, 60);
    let times = || snapshot.device_traces.iter().flatten().map(|entry| entry.time_us);
    let (first, last) = (times().min().unwrap(), times().max().unwrap());
    snapshot.device_traces[0][7].time_us = 0;
    snapshot.device_traces[0][0].time_us = 0;
    let json: Value = serde_json::from_slice(&converted(&snapshot, Format::Perfetto)).unwrap();
    let events = json["traceEvents"].as_array().unwrap().iter();
    let span = last - first;
    for event in events.filter(|event| event["cat"] != "scope") {
        assert!((0..=span).contains(&event["ts"].as_i64().unwrap()), "{event}, of {span} us");
    }
    let profile = converted(&snapshot, Format::Pprof);
    // Duration, of which 0 would make 54 years.
    let duration = fields(&profile).into_iter().find(|field| field.0 == 10).unwrap().1;
    assert!(duration <= span.cast_unsigned() * 1000);
}

/// A protobuf message, read by the wire format alone: fields in order, numbers or bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (first, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            shift += 7;
            if first & 0x80 == 0 {
                return value;
            }
        }
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = varint(&mut bytes);
        match key & 7 {
            0 => fields.push((key >> 3, value, &[][..])),
            2 => {
                let (inside, rest) = bytes.split_at(usize::try_from(value).unwrap());
                fields.push((key >> 3, 0, inside));
                bytes = rest;
            }
            other => panic!("wire type {other}"),
        }
    }
    fields
}

fn packed(bytes: &[u8]) -> Vec<u64> {
    let mut values = vec![0u64];
    let mut shift = 0;
    for byte in bytes {
        *values.last_mut().unwrap() |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            values.push(0);
            shift = 0;
        }
    }
    values.pop();
    values
}

#[test]
fn pprof_read_again_has_every_stack_with_its_bytes() {
    for snapshot in samples() {
        let bytes = converted(&snapshot, Format::Pprof);
        let profile = fields(&bytes);
        let of = |field: u64| profile.iter().filter(move |(f, ..)| *f == field).map(|(.., inside)| *inside);
        let texts: Vec<&str> = of(6).map(|text| std::str::from_utf8(text).unwrap()).collect();
        assert_eq!(texts[0], "");
        let int = |message: &[u8], field: u64| {
            fields(message).iter().find(|(f, ..)| *f == field).map_or(0, |(_, value, _)| *value)
        };
        let text = |message: &[u8], field: u64| texts[int(message, field) as usize];
        let kinds: Vec<_> = of(1).map(|kind| (text(kind, 1), text(kind, 2))).collect();
        assert_eq!(kinds[1], ("alloc_space", "bytes"));
        assert_eq!(kinds[3], ("inuse_space", "bytes"));
        let functions: HashMap<u64, (&str, &str)> =
            of(5).map(|message| (int(message, 1), (text(message, 2), text(message, 4)))).collect();
        let locations: HashMap<u64, (&str, &str, u64)> = of(4)
            .map(|message| {
                let line = fields(message).into_iter().find(|(f, ..)| *f == 4).unwrap().2;
                let (name, file) = functions[&int(line, 1)];
                (int(message, 1), (name, file, int(line, 2)))
            })
            .collect();
        let shown = ShownFrames::new(&snapshot);
        let mut expected: BTreeMap<Vec<(&str, &str, u64)>, [u64; 4]> = BTreeMap::new();
        let mut add = |stack: Option<StackIndex>, first: usize, bytes| {
            let members = shown.identifying(stack.unwrap_or(StackTable::EMPTY));
            let frames = members.map(|frame| snapshot.stacks.frame(frame));
            let frames = frames.map(|frame| (&*frame.name, &*frame.filename, frame.line));
            let values = expected.entry(frames.collect()).or_default();
            values[first] += 1;
            values[first + 1] += bytes;
        };
        for entry in snapshot.device_traces.iter().flatten() {
            if entry.action == Some(Action::Alloc) {
                add(entry.stack, 0, entry.size);
            }
        }
        for block in snapshot.segments.iter().flat_map(|segment| &segment.blocks) {
            if block.state.unwrap().is_active() {
                add(block.stack, 2, block.requested_size);
            }
        }
        let mut read: BTreeMap<Vec<(&str, &str, u64)>, [u64; 4]> = BTreeMap::new();
        for sample in of(2) {
            let parts = fields(sample);
            let part = |field| packed(parts.iter().find(|(f, ..)| *f == field).unwrap().2);
            let sum = read.entry(part(1).iter().map(|id| locations[id]).collect()).or_default();
            sum.iter_mut().zip(part(2)).for_each(|(sum, value)| *sum += value);
        }
        assert_eq!(read, expected);
    }
}

/// PyTorch 2.0 has neither `requested_size` nor `frames` of a block, but a `history` of its uses.
#[test]
fn files_of_torch_2_0_have_the_sizes_and_stacks_of_their_history() {
    let path = repository("fixtures/synthetic/torch-2.0.pickle");
    let snapshot = memreel_snapshot::pickle::load(path).unwrap();
    let folded = text(&snapshot, Format::Folded);
    assert_eq!(folded, "(no stack) 20971520\nmain.py:7:main;forward.py:40:forward 700\n");
    let json: Value = serde_json::from_slice(&converted(&snapshot, Format::Perfetto)).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let last = events.iter().rfind(|event| event["ph"] == "C").unwrap();
    assert_eq!(last["args"]["active"], 20_971_520 + 600 + 100);
    let sizes = events.iter().filter(|event| event["cat"] == "block" && event["ph"] == "b");
    assert!(sizes.clone().any(|event| event["args"]["bytes"] == 20_971_520));
    assert!(sizes.clone().all(|event| event["args"]["bytes"] != 0));
    let bytes = converted(&snapshot, Format::Pprof);
    let samples = fields(&bytes).into_iter().filter(|(field, ..)| *field == 2).map(|(.., inside)| inside);
    let values = |sample: &[u8]| packed(fields(sample).iter().find(|(field, ..)| *field == 2).unwrap().2);
    let in_use: u64 = samples.map(|sample| values(sample)[3]).sum();
    assert_eq!(in_use, 20_971_520 + 600 + 100);
}
