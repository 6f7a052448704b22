//! What PyTorch 2.11 did on an H100, event for event.
//!
//! The recordings come from `fixtures/torch-2.11/scenarios`, or from the
//! folder that `MEMREEL_SCENARIOS` names.

use memreel_testing::repository;
use std::path::PathBuf;

use super::replay::{Scenario, difference};

fn folder() -> PathBuf {
    let own = repository("fixtures/torch-2.11/scenarios");
    std::env::var_os("MEMREEL_SCENARIOS").map_or(own, PathBuf::from)
}

#[test]
fn every_scenario_is_equal() {
    let mut paths: Vec<_> = std::fs::read_dir(folder())
        .expect("the folder of scenarios")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    paths.sort();
    let (mut n_equal, mut failures) = (0, Vec::new());
    for path in &paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let recording = Scenario::read(path);
        match difference(&recording.run_ops(), &recording.recorded()) {
            None => n_equal += 1,
            Some(what) => failures.push(format!("{name}: {what}")),
        }
    }
    memreel_testing::say(&format!("{n_equal} of {} scenarios equal", paths.len()));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(n_equal >= if std::env::var_os("MEMREEL_SCENARIOS").is_some() { 1 } else { 24 }, "{n_equal}");
}

#[test]
fn scenario_of_a_recorded_training_run_is_equal() {
    let path = repository("fixtures/torch-2.11/models/gpt_train.default.json");
    let recording = Scenario::read(path.as_ref());
    let (ours, recorded) = (recording.run_events(), recording.recorded());
    assert_eq!(recorded.events.len(), 16_050);
    assert_eq!(difference(&ours, &recorded), None);
}
