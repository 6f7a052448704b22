//! The page of `memreel report`, and the flame graph of a moment.

#![forbid(unsafe_code)]

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::support::{answer, memreel, run, stderr};

const RANK_1: &str = "torch-2.11/ranks/rank1.pickle";

#[test]
fn a_report_of_a_failure_fits_a_page() {
    let output = run(&["report", RANK_1]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(run(&["report", "--check", RANK_1]).status.code(), Some(1));
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.lines().count() <= 60, "{} lines", page.lines().count());
    for part in [
        "## Out of memory: torch-2.11/ranks/rank1.pickle, device 1\n",
        "the device had 136.67 GiB free but refused a request for 34.00 MiB; ",
        "1. grew: \\<module\\> (fsdp\\_ranks.py:38) allocated 1.19 GiB in 37 blocks during the last 82 of 7739 events",
        "| the file is | in the format of PyTorch 2.10 to 2.11 |\n",
        "fsdp\\_ranks.py:38 in \\<module\\> |\n",
        "<details><summary>Memory over time</summary>\n\n```text\n",
        "| expandable\\_segments:True | yes, 5 times | ",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn a_report_goes_where_it_is_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (html, hidden, summary) = (path("report.html"), path("hidden.md"), path("summary.md"));
    assert_eq!(run(&["report", RANK_1, "-o", &html]).status.code(), Some(0));
    let text = fs::read_to_string(&html).unwrap();
    assert!(
        text.starts_with("<!doctype html>") && text.contains("<svg ") && !text.contains("<script"),
        "{text}"
    );
    // It has the colours of the page for light and dark, fits a phone, shows its picture, and no row is empty.
    for part in ["--ground: light-dark(", "name=\"viewport\"", "<details open><summary>Memory over time"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(!text.contains("<th></th>"), "{text}");
    run(&["report", "--anonymise", RANK_1, "-o", &hidden]);
    let text = fs::read_to_string(&hidden).unwrap();
    assert!(
        text.contains("grew: ")
            && !text.contains("fsdp_ranks")
            && !text.contains("/home")
            && !text.contains("rank1"),
        "{text}"
    );
    for _ in 0..2 {
        let mut command = memreel(&["report", "--summary", RANK_1]);
        let output = command.env("GITHUB_STEP_SUMMARY", &summary).output().unwrap();
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
    }
    let text = fs::read_to_string(&summary).unwrap();
    assert_eq!(text.matches("## Out of memory").count(), 2, "each is added: {text}");
    let refused =
        memreel(&["report", "--summary", RANK_1]).env_remove("GITHUB_STEP_SUMMARY").output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

#[test]
fn a_report_without_a_failure_has_the_peak() {
    let page = answer(&["report", "torch-2.11/ranks/rank0.pickle"]);
    assert!(
        page.contains("## Memory of ")
            && page.contains("no leak: ")
            && page.contains("| peak | 786.48 MiB in use"),
        "{page}"
    );
}

#[test]
fn a_flame_graph_is_of_a_moment() {
    let lines = answer(&["flamegraph", RANK_1]);
    let bytes: u64 = lines.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    let peak: Value = serde_json::from_str(&answer(&["top", "--json", RANK_1])).unwrap();
    assert_eq!(bytes, peak["active_bytes"]);
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("peak.svg");
    answer(&["flamegraph", "--at", "100", RANK_1, "-o", svg.to_str().unwrap()]);
    assert!(fs::read_to_string(svg).unwrap().contains("after event 100 of 7739"));
}

/// Of several snapshots of one program, what grows in each of them is named.
#[test]
fn leaks_of_several_files_are_what_grows_in_each() {
    let folder = tempfile::tempdir().unwrap();
    let window = |events: &str, name: &str| {
        let path = folder.path().join(name).to_str().unwrap().to_owned();
        answer(&["slim", "--events", events, RANK_1, "-o", &path]);
        path
    };
    let files = [window("..7660", "a.pickle"), window("..7700", "b.pickle"), window("..7730", "c.pickle")];
    let text = answer(&["leaks", &files[0], &files[1], &files[2]]);
    assert!(text.starts_with("device 1: 1 site grew in each of 3 files, by "), "{text}");
    assert!(text.contains(" → ") && text.contains("<module> (fsdp_ranks.py:38)"), "{text}");
    assert!(!text.contains("note: "), "{text}");
    let backwards = answer(&["leaks", &files[2], &files[1], &files[0]]);
    let note = "note: the files are compared in the order of their last events\n";
    assert_eq!(backwards, format!("{note}{text}"), "a shell sorts -10 before -9");
}

/// Writes files of a program that allocates a KiB each hour, with what it has after these hours; with `frees`, the last file
/// has the free of all.
fn hourly(folder: &Path, hours: [u64; 3], frees: bool) -> [String; 3] {
    let event = |action: &str, n: u64, time_us: u64| json!({"action": action, "addr": n << 20, "size": 1024, "stream": 0, "time_us": time_us, "frames": []});
    [0, 1, 2].map(|nth| {
        let n = hours[nth];
        let mut trace: Vec<Value> = (1..=n).map(|hour| event("alloc", hour, hour * 3_600_000_000)).collect();
        if frees && nth == 2 {
            trace.extend((1..=n).map(|hour| event("free_completed", hour, (n + 1) * 3_600_000_000)));
        }
        let path = folder.join(format!("{nth}.json"));
        fs::write(&path, json!({"segments": [], "device_traces": [trace]}).to_string()).unwrap();
        path.display().to_string()
    })
}

#[test]
fn leaks_of_several_files_say_how_fast() {
    let folder = tempfile::tempdir().unwrap();
    let files = hourly(folder.path(), [1, 2, 3], false);
    let text = answer(&["leaks", &files[0], &files[1], &files[2]]);
    assert!(text.contains("by 2.00 KiB, 1.00 KiB an hour; "), "{text}");
}

#[test]
fn leaks_of_several_files_say_what_grew_before_the_program_ended() {
    let folder = tempfile::tempdir().unwrap();
    let files = hourly(folder.path(), [1, 2, 2], true);
    let text = answer(&["leaks", &files[0], &files[1], &files[2]]);
    let note = "note: 1 site grew in each file before the last one, which may have been written as the \
                program ended\nwithout it: ";
    assert!(text.contains(note), "{text}");
}

#[test]
fn pytorchs_words_are_below_torch_too() {
    for command in ["stats", "trace", "segments", "memory"] {
        assert_eq!(answer(&["torch", command, RANK_1]), answer(&[command, RANK_1]), "{command}");
    }
    let meant = run(&["info", RANK_1]);
    assert_eq!(meant.status.code(), Some(2));
    assert!(stderr(&meant).contains("there is no command info; use: memreel FILE"), "{meant:?}");
}
