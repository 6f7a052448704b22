//! Recorded histories under other settings, held against what PyTorch did on an H100.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use memreel::{
    DeviceId, Error, Snapshot, pickle,
    snapshot::validate::{Severity, validate},
    whatif::{Confidence, Question, Requests, ask, ask_all, grid, replayed},
};
use serde_json::{Value, json};

use crate::model_recording::{read, snapshot};

const SETTINGS: [(&str, &str); 4] = [
    ("default", ""),
    ("expandable_segments_True", "expandable_segments:True"),
    ("max_split_size_mb_64", "max_split_size_mb:64"),
    ("roundup_power2_divisions_8", "roundup_power2_divisions:8"),
];

const GPT_TRAIN_REQUESTS: usize = 5472;

fn question(conf: &str) -> Question {
    Question { conf: conf.to_owned(), limit_bytes: None }
}

fn requests(snapshot: &Snapshot) -> Requests {
    Requests::of(snapshot, DeviceId(0)).unwrap()
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
        let answer = ask(&requests, &question(conf), &|_| ()).unwrap();
        assert_eq!((requests.len(), n_requests), (GPT_TRAIN_REQUESTS, GPT_TRAIN_REQUESTS), "{conf}");
        let runs = [&answer.outcome, &answer.rising, &answer.falling];
        println!("{conf:?}: recorded {recorded}, {:?}", runs.map(|run| run.reserved_peak_bytes));
        for run in runs {
            let off = percent_off(run.reserved_peak_bytes, recorded);
            assert!(off.abs() <= 1.0, "{conf:?}: {} is {off:.2} % off", run.reserved_peak_bytes);
            let is_exact = conf.is_empty() && answer.has_recorded_addresses || conf.starts_with("expandable");
            assert!(!is_exact || answer.outcome.reserved_peak_bytes == recorded, "{conf:?}");
        }
    }
}
