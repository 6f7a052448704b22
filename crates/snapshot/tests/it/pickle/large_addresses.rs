//! Addresses of 2^63 and more, which PyTorch records on Intel's GPUs, are addresses like all others.

use memreel_snapshot::{
    Action, DeviceId, Snapshot,
    analysis::{DeviceHistory, devices},
    export::{Format, convert},
    model::TraceEntry,
    pickle,
    rewrite::fix,
    validate::{Severity, validate},
};
use serde_json::{Value, json};

use crate::fixtures::snapshots;

/// Far enough for the low addresses of host memory and the high ones of GPUs.
const OFFSET: u64 = 0xff00 << 48;

/// Returns the snapshots of the fixtures that are sound and have room above their addresses.
fn sound() -> Vec<(String, Snapshot)> {
    let mut all = snapshots();
    all.retain(|(_, snapshot)| {
        let is_sound = validate(snapshot).iter().all(|finding| finding.severity != Severity::Error);
        let entries = snapshot.device_traces.iter().flatten();
        is_sound && entries.clone().count() > 0 && entries.clone().all(|entry| entry.end().0 < 1 << 56)
    });
    assert!(all.len() > 10, "only {} files are sound", all.len());
    all
}

/// Moves every address by [`OFFSET`]; a field that is absent stays absent.
fn moved(snapshot: &Snapshot) -> Snapshot {
    let mut moved = snapshot.clone();
    for segment in &mut moved.segments {
        segment.address.0 += OFFSET;
        segment.blocks.iter_mut().for_each(|block| block.address.0 += OFFSET);
    }
    let entries = moved.device_traces.iter_mut().flatten();
    let is_placed = |entry: &&mut TraceEntry| entry.action != Some(Action::Oom) && entry.address.0 != 0;
    entries.filter(is_placed).for_each(|entry| entry.address.0 += OFFSET);
    moved
}

/// Returns the figures of every device at its peak and at its end.
fn figures(snapshot: &Snapshot) -> Vec<String> {
    let of_device = |device: DeviceId| {
        let history = DeviceHistory::new(snapshot, device);
        let (peak, end) = (history.peak(), history.totals_at(history.end()));
        format!("{peak:?} {end:?} {}", history.trust().n_contradictions)
    };
    devices(snapshot).into_iter().map(of_device).collect()
}

#[test]
fn they_are_read_written_and_counted_like_low_ones() {
    for (name, low) in sound() {
        let high = moved(&low);
        let bytes = pickle::to_vec(&high);
        let whole = pickle::from_slice(&bytes).unwrap();
        let json = |snapshot| serde_json::to_string(snapshot).unwrap();
        assert!(json(&whole) == json(&high), "{name}: read as another snapshot");
        assert!(pickle::lazy(&bytes).unwrap().is_in_file(), "{name}: the decoder of entries refuses them");
        assert_eq!(figures(&whole), figures(&low), "{name}");
        let findings = validate(&whole);
        let errors: Vec<_> = findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
        let warned = findings.iter().any(|finding| finding.what.contains("which is 2^63 or more"));
        assert!(warned, "{name}: no word about old viewers");
        let fixed = fix(whole);
        assert!(fixed.changes.is_empty(), "{name}: {:?}", fixed.changes);
    }
}

#[test]
fn they_are_numbers_in_json() {
    for (name, low) in sound().into_iter().filter(|(_, low)| low.n_events() < 10_000) {
        let high = moved(&low);
        let mut text = Vec::new();
        convert(&high, Format::Json, &mut text).unwrap();
        let texts = [String::from_utf8(text).unwrap(), serde_json::to_string(&high).unwrap()];
        for text in texts {
            let json: Value = serde_json::from_str(&text).unwrap();
            let address = &json["segments"][0]["address"];
            let first = high.segments.first().map(|segment| segment.address.0);
            assert!(first.is_none_or(|first| *address == json!(first)), "{name}: {address}");
            let again: Snapshot = serde_json::from_str(&text).unwrap();
            assert_eq!(figures(&again), figures(&low), "{name}");
        }
    }
}

/// Makes the addresses of a JSON snapshot negative, as PyTorch's C++ writer does.
fn make_negative(json: &mut Value) {
    match json {
        Value::Array(all) => all.iter_mut().for_each(make_negative),
        Value::Object(all) => {
            for (key, value) in all {
                match value.as_u64() {
                    Some(address) if key == "address" || key == "addr" => {
                        *value = json!(address.cast_signed());
                    }
                    _ => make_negative(value),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn those_that_were_written_as_negative_are_counted_and_fixed() {
    for (name, low) in sound().into_iter().filter(|(_, low)| low.n_events() < 2_000) {
        let high = moved(&low);
        let mut json = serde_json::to_value(&high).unwrap();
        make_negative(&mut json);
        let negative: Snapshot = serde_json::from_value(json).unwrap();
        assert_eq!(figures(&negative), figures(&low), "{name}");
        let kept = pickle::from_slice(&pickle::to_vec(&negative)).unwrap();
        let is_negative = |snapshot: &Snapshot| {
            validate(snapshot).iter().any(|finding| finding.what.contains("cannot be negative"))
        };
        assert!(is_negative(&kept), "{name}: writing must not change what was read");
        let fixed = fix(negative);
        let changes: Vec<String> = fixed.changes.iter().map(ToString::to_string).collect();
        assert!(changes[0].contains("rewrote negative addresses as unsigned"), "{name}: {changes:?}");
        assert!(!is_negative(&fixed.snapshot), "{name}");
        assert_eq!(fixed.snapshot.n_events(), low.n_events(), "{name}: events were lost");
        assert_eq!(figures(&fixed.snapshot), figures(&low), "{name}");
    }
}
