//! Runs the requests that were recorded with PyTorch on this GPU, then again on the simulated device with
//! the GPU's addresses, and compares the events.

use std::{path::PathBuf, sync::Arc};

use memreel::{StreamId, device::Device};

use super::{
    live::Live,
    replay::{Event, Scenario, difference},
};

fn folder() -> PathBuf {
    std::env::var_os("MEMREEL_SCENARIOS").map_or("fixtures/torch-2.11/scenarios".into(), PathBuf::from)
}

/// Returns events without addresses, with their stream's index instead of its handle.
fn shapes(events: &[Event], streams: &[StreamId]) -> Vec<(String, u64, Option<usize>)> {
    let place = |handle: u64| streams.iter().position(|stream| stream.handle() == handle);
    events.iter().map(|(action, _, bytes, stream)| (action.clone(), *bytes, place(*stream))).collect()
}

pub(crate) fn live_runs_equal_their_repetition() {
    let entries = std::fs::read_dir(folder()).expect("the folder of scenarios");
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let (mut n_events, mut n_as_recorded, mut failures, mut ties) = (0, 0, Vec::new(), Vec::new());
    for path in &paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let recording = Scenario::read(path);
        let (recorded_streams, numbers) = recording.streams();
        let device = Arc::new(Live::new());
        let streams = device.streams(recorded_streams.len().max(1));
        device.number(&streams, &numbers);
        let total_bytes = device.total_bytes();
        let live = recording.run_ops_on(device, &[], &streams);
        n_events += live.events.len();
        let simulated = Arc::new(recording.simulated(&live.events, total_bytes, &streams));
        let again = recording.run_ops_on(simulated, &live.events, &streams);
        failures.extend(difference(&live, &again).map(|what| format!("{name}: {what}")));
        if shapes(&live.events, &streams) == shapes(&recording.events(), &recorded_streams) {
            n_as_recorded += 1;
        } else {
            ties.push(name);
        }
    }
    println!(
        "{} of {} live runs equal their repetition on the simulated device, {n_events} events; \
         {n_as_recorded} make PyTorch's recorded events in its order (others: {ties:?})",
        paths.len() - failures.len(),
        paths.len()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(!paths.is_empty(), "no scenario was found");
}
