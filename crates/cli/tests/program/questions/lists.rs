//! Lists in JSON: all frames of a stack, and the sum of what `-n` leaves out.

#![forbid(unsafe_code)]

use std::{fs, path::Path};

use memreel_snapshot::{
    Address, BlockState, Snapshot,
    model::{
        Block, Frame, Segment,
        raw::{Field, Shape},
    },
};
use serde_json::{Value, json};

use crate::support::{answer, run};

const FILE: &str = "torch-2.11/snapshots/transformer_all_stacks.pickle";

fn object(arguments: &[&str], file: &str) -> Value {
    let path = crate::support::fixture(file);
    let output = run(&[arguments, &["--json", path.to_str().unwrap()]].concat());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn stacks_have_all_frames_with_a_mark() {
    let answer = object(&["top"], FILE);
    let stack = answer["groups"][0]["stack"].as_array().unwrap();
    let is_shown = |frame: &&Value| frame["is_shown"] == true;
    assert_eq!(stack[0]["name"], "torch::unwind::unwind()");
    let mut shown = stack.iter().filter(is_shown).map(|frame| frame["name"].as_str().unwrap());
    assert!(shown.next().unwrap().starts_with("at::cuda::setWorkspaceForHandle("));
    assert_eq!(shown.next().unwrap(), "_in_projection_packed");
    assert!(stack.iter().filter(is_shown).count() < stack.len());
}

#[test]
fn what_a_list_leaves_out_is_summed() {
    let questions: [(&[&str], &str); 6] = [
        (&["top"], "groups"),
        (&["top", "--by", "function"], "groups"),
        (&["leaks"], "sites"),
        (&["leaks", "--older-than", "10"], "groups"),
        (&["churn"], "sites"),
        (&["fragmentation"], "pinned"),
    ];
    for (question, list) in questions {
        let bytes = |row: &Value| row["free_bytes"].as_u64().or(row["bytes"].as_u64()).unwrap();
        let all = object(&[question, &["-n", "1000000"]].concat(), FILE);
        assert_eq!(all["rest"], json!({"count": 0, "bytes": 0}), "{question:?}");
        let all = all[list].as_array().unwrap().clone();
        let first = object(&[question, &["-n", "1"]].concat(), FILE);
        assert_eq!(first[list].as_array().unwrap().len(), all.len().min(1), "{question:?}");
        let sum: u64 = all.iter().skip(1).map(bytes).sum();
        let rest = json!({"count": all.len().saturating_sub(1), "bytes": sum});
        assert_eq!(first["rest"], rest, "{question:?}");
    }
    let failed = object(&["oom", "-n", "0"], "torch-2.11/snapshots/oom_fragment.pickle");
    assert!(failed["rest"]["count"].as_u64() > Some(0), "{failed}");
}

#[test]
fn a_tree_is_a_list_of_branches() {
    let answer = object(&["top", "--tree"], FILE);
    assert_eq!(answer["groups"], Value::Null);
    let tree = answer["tree"].as_array().unwrap();
    assert_eq!(tree[0]["depth"], 0);
    assert!(tree.iter().any(|branch| branch["depth"] == 1 && branch["frame"]["name"] == "forward"));
    assert!(tree.iter().all(|branch| branch["bytes"].as_u64() > Some(0)));
}

/// Writes a file with one block, whose stack has one frame a number of times; returns its path.
fn deep(folder: &Path, n_calls: usize, name: &str) -> String {
    let mut snapshot = Snapshot { device_traces: vec![Vec::new()], ..Snapshot::default() };
    let keys = [("name", Field::Name), ("filename", Field::Filename), ("line", Field::Line)];
    let shape = snapshot.shapes.intern(Shape::from_fields(&keys));
    // Two lines that call each other: a call of itself would be one.
    let frames = [7, 8].map(|line| {
        snapshot.stacks.intern_frame(Frame { name: name.into(), filename: "a.py".into(), line, shape })
    });
    let frames: Vec<_> = (0..n_calls).map(|at| frames[at % 2]).collect();
    let stack = Some(snapshot.stacks.intern_stack(&frames));
    let shape = snapshot.shapes.intern(Shape::block());
    let state = Some(BlockState::ActiveAllocated);
    let block = Block { address: Address(4096), size: 512, requested_size: 512, stack, shape, state };
    let shape = snapshot.shapes.intern(Shape::segment(false));
    let segment =
        Segment { address: Address(4096), total_size: 512, blocks: vec![block], shape, ..Segment::default() };
    snapshot.segments.push(segment);
    let path = folder.join("deep.pickle").to_str().unwrap().to_owned();
    memreel_snapshot::pickle::save(&snapshot, &path).unwrap();
    path
}

#[test]
fn a_tree_counts_the_calls_that_are_too_deep_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = deep(folder.path(), 5000, "f");
    let tree = object(&["top", "--tree"], &file)["tree"].as_array().unwrap().clone();
    assert_eq!((tree.len(), &tree[0]["calls_left_out"]), (1024, &Value::Null));
    assert_eq!((&tree[1023]["frame"]["line"], &tree[1023]["calls_left_out"]), (&7.into(), &3976.into()));
    let text = answer(&["top", "--tree", &file]);
    assert!(text.ends_with("f (a.py:8) → 1022 more → f (a.py:7) → 3976 deeper calls left out\n"), "{text}");
}

#[test]
fn a_flame_graph_of_too_much_text_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = deep(folder.path(), 2000, &"f".repeat(10_000));
    let svg = folder.path().join("drawn.svg");
    for command in ["segments", "memory"] {
        let output = run(&[command, "--svg", svg.to_str().unwrap(), &file]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{message}");
        assert!(message.contains("more than 16 MiB of text; use --folded"), "{message}");
    }
    assert!(!svg.exists());
}

#[test]
fn a_segment_that_is_not_drawn_has_no_pages() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large.json");
    let segment = |gib: u64| json!({"address": gib << 32, "total_size": gib << 30, "blocks": []});
    let segments = json!({"segments": [segment(1), segment(30 << 10)], "device_traces": []});
    fs::write(&file, segments.to_string()).unwrap();
    let output = run(&["stats", "--json", file.to_str().unwrap()]);
    let stats: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(stats["segments"][0]["pages"], " ".repeat(52));
    assert_eq!(stats["segments"][1]["pages"], Value::Null);
    assert!(String::from_utf8(output.stderr).unwrap().contains("1 segment not drawn"));
}

#[test]
fn blocks_without_a_stack_have_the_keys_of_the_list() {
    let row = |by: &str| {
        let answer = object(&["top", "--by", by], "torch-2.11/snapshots/no_history.pickle");
        let mut keys: Vec<String> = answer["groups"][0].as_object().unwrap().keys().cloned().collect();
        keys.retain(|key| !["bytes", "blocks", "total_bytes"].contains(&key.as_str()));
        keys
    };
    assert_eq!(row("file"), ["filename"]);
    assert_eq!(row("function"), ["function", "filename"]);
}
