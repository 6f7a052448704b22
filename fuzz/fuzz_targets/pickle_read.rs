//! Reads any bytes as a snapshot, JSON where they begin like it: the result is an error, or a snapshot that survives
//! every operation.

#![no_main]

use libfuzzer_sys::fuzz_target;
use memreel::{
    Snapshot,
    export::{Format, convert},
    pickle,
    rewrite::{Part, Slim, Window, fix, merge, split},
    validate::validate,
};

fuzz_target!(|bytes: &[u8]| {
    if matches!(bytes.first(), Some(b'{' | b'[')) {
        read_json(bytes);
    }
    let inspection = pickle::inspect_slice(bytes);
    let Ok(snapshot) = inspection.snapshot else {
        assert!(!inspection.findings.is_empty(), "a refusal has a finding");
        return;
    };
    let _ = validate(&snapshot);
    let written = pickle::to_vec(&snapshot);
    let again = pickle::from_slice(&written).expect("what was written can be read");
    assert_eq!(again.n_events(), snapshot.n_events());
    let lazy = pickle::lazy(bytes).expect("what is read whole is read with its events left where they are");
    assert!(pickle::to_vec(&lazy) == written, "and is the same");
    let n = snapshot.device_traces.iter().map(Vec::len).max().unwrap_or(0);
    let window = Window::Events { device: None, range: n / 3..n - n / 3 };
    let slim = Slim::new().window(window).min_bytes(1000).depth(2).anonymise(true);
    let streamed = slim.over(&lazy);
    match slim.apply(snapshot.clone()) {
        Ok(small) => {
            let _ = validate(&small);
            let written = pickle::to_vec(&small);
            pickle::from_slice(&written).expect("what was written can be read");
            let streamed = streamed.expect("what can be cut in memory can be cut in the file");
            assert!(pickle::to_vec(&streamed) == written, "and gives the same");
        }
        Err(_) => assert!(streamed.is_err()),
    }
    let parts = split(snapshot.clone()).into_iter().map(|(_, snapshot)| Part::new(snapshot));
    let _ = merge(parts);
    fix_twice(snapshot);
});

fn fix_twice(snapshot: Snapshot) {
    let fixed = fix(snapshot).snapshot;
    let _ = validate(&fixed);
    pickle::from_slice(&pickle::to_vec(&fixed)).expect("what was written can be read");
    assert!(fix(fixed).changes.is_empty(), "what was fixed needs no second fix");
}

/// What JSON describes is read, written as both formats, and read again.
fn read_json(bytes: &[u8]) {
    let Ok(snapshot) = serde_json::from_slice::<Snapshot>(bytes) else { return };
    let _ = validate(&snapshot);
    let written = pickle::to_vec(&snapshot);
    let again = pickle::from_slice(&written).expect("what was written can be read");
    // Equal texts of JSON are one text in a pickle, so that the numbers in the memo may differ once, and no value does.
    let value = |snapshot: &Snapshot| serde_json::to_value(snapshot).expect("a snapshot is JSON");
    assert!(value(&again) == value(&snapshot), "and is the same");
    let written = pickle::to_vec(&again);
    let again = pickle::from_slice(&written).expect("what was written can be read");
    assert!(pickle::to_vec(&again) == written, "byte for byte");
    let mut json = Vec::new();
    if convert(&snapshot, Format::Json, &mut json).is_ok() {
        let again: Snapshot = serde_json::from_slice(&json).expect("what was written can be read");
        assert_eq!(again.n_events(), snapshot.n_events());
    }
    fix_twice(snapshot);
}
