//! `memreel gate`: its limits, exit statuses and reports.

#![forbid(unsafe_code)]

use std::fs;

use crate::support::{answer, run};

#[test]
fn exit_statuses_and_reports() {
    let folder = tempfile::tempdir().unwrap();
    let junit = folder.path().join("gate.xml");
    let (xml, file) = (junit.to_str().unwrap(), "torch-2.11/snapshots/oom_fragment.pickle");
    let status = |arguments: &[&str]| run(&[&["gate"], arguments, &[file]].concat()).status.code();
    assert_eq!(
        status(&["--max-peak", "1.85GiB", "--max-live", "2GiB", "--max-fragmentation", "9%"]),
        Some(0)
    );
    assert_eq!(status(&["--max-peak", "1.5GiB", "--junit", xml]), Some(4));
    let report = fs::read_to_string(&junit).unwrap();
    assert!(report.contains(
        "<testsuite name=\"torch-2.11/snapshots/oom_fragment.pickle, device 0\" tests=\"1\" failures=\"1\">"
    ));
    assert!(report.contains("<failure message=\"peak is 1.84 GiB, at most 1.50 GiB\"/>"), "{report}");
    assert_eq!(status(&["--max-fragmentation", "7%"]), Some(4));
    // Measured between the allocation of a segment and that of its block, 68.1 % would be wasted.
    let healthy = "torch-2.11/snapshots/graph_private_pools.pickle";
    assert_eq!(run(&["gate", "--max-fragmentation", "20%", healthy]).status.code(), Some(0));
    assert_eq!(["0", "0B", "0 GiB"].map(|none| status(&["--max-live", none])), [Some(4); 3]);
    assert_eq!(status(&["--baseline", file]), Some(0));
    assert_eq!(status(&["--baseline", "torch-2.11/snapshots/oom.pickle", "--tolerance", "2%"]), Some(4));
    assert_eq!(status(&["--baseline", "torch-2.11/snapshots/oom.pickle", "--tolerance", "200%"]), Some(0));
    assert_eq!(status(&["--max-peak", "9GiB", "--strict"]), Some(0));
    assert_eq!(status(&[]), Some(2));
    assert_eq!(status(&["--baseline", "missing.pickle"]), Some(3));
    let wrapped = "torch-2.11/snapshots/expandable_wrapped_ring.pickle";
    assert_eq!(run(&["gate", "--max-peak", "9GiB", wrapped]).status.code(), Some(0));
    assert_eq!(run(&["gate", "--max-peak", "9GiB", "--strict", wrapped]).status.code(), Some(4));
    assert_eq!(status(&["--baseline", wrapped, "--tolerance", "900%"]), Some(0));
    assert_eq!(status(&["--baseline", wrapped, "--tolerance", "900%", "--strict"]), Some(4));
    assert_eq!(run(&["diff", "-", "-"]).status.code(), Some(2), "one standard input is not two files");
}

#[test]
fn decimal_and_binary_units_differ() {
    let file = "torch-2.11/snapshots/oom_fragment.pickle";
    // 1.84 GiB are 1.98 GB.
    let status = |most: &str| run(&["gate", "--max-peak", most, file]).status.code();
    assert_eq!(["1.9GiB", "1.9G", "1.9GB", "2GB"].map(status), [Some(0), Some(0), Some(4), Some(0)]);
    for command in ["gate", "replay"] {
        assert!(answer(&[command, "--help"]).contains("kB, MB, GB count in 1000s"), "{command}");
    }
}
