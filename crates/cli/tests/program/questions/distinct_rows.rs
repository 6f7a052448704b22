//! Sites in lists: one line of code is one row, and no two rows have the same text.

#![forbid(unsafe_code)]

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Value, json};

use crate::support::{answer, run};

/// Writes a history that allocates, frees and allocates again a block for each stack.
fn write(path: &Path, stacks: &[Value]) -> String {
    let mut entries = Vec::new();
    for round in 0..4 {
        for (at, frames) in stacks.iter().enumerate() {
            let entry = |action: &str| {
                json!({
                    "action": action, "addr": (at + 1) << 20, "size": 4096, "stream": 0, "time_us": entries.len(),
                    "frames": if action == "alloc" { frames.clone() } else { json!([]) },
                })
            };
            let actions: &[&str] =
                if round < 3 { &["alloc", "free_requested", "free_completed"] } else { &["alloc"] };
            let all: Vec<Value> = actions.iter().map(|action| entry(action)).collect();
            entries.extend(all);
        }
    }
    let file = json!({"segments": [], "device_traces": [entries]});
    fs::write(path, file.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn frame(name: &str, file: &str, line: u64) -> Value {
    json!({"name": name, "filename": file, "line": line})
}

#[test]
fn one_line_of_code_is_one_row() {
    let folder = tempfile::tempdir().unwrap();
    let hidden = frame("unwind::unwind", "??", 0);
    let further = json!({"line": 1, "fx_node_op": "call", "filename": "/u/a.py", "name": "alloc"});
    let stacks = [
        json!([frame("alloc", "/u/a.py", 1), frame("main", "/u/m.py", 9)]),
        json!([further, frame("main", "/u/m.py", 9)]),
        json!([
            hidden,
            frame("alloc", "/u/a.py", 1),
            frame("at::empty", "??", 0),
            frame("main", "/u/m.py", 9)
        ]),
    ];
    let before = write(&folder.path().join("before.json"), &stacks[..1]);
    let after = write(&folder.path().join("after.json"), &stacks[1..]);
    for (question, key) in [("top", "groups"), ("leaks", "sites"), ("churn", "sites")] {
        let text = answer(&[question, &after]);
        assert_eq!(text.matches("alloc (a.py:1)").count(), 1, "{text}");
        let object: Value = serde_json::from_str(&answer(&[question, "--json", &after])).unwrap();
        let listed = object[key].as_array().unwrap();
        assert_eq!((listed.len(), &listed[0]["stacks"]), (1, &json!(2)), "{question}: {object}");
    }
    let text = answer(&["diff", &before, &after]);
    assert_eq!(text.matches("alloc (a.py:1)").count(), 1, "{text}");
    assert!(text.contains("grown     +4.00 KiB     +1  alloc (a.py:1)"), "{text}");
    let object: Value = serde_json::from_str(&answer(&["diff", "--json", &before, &after])).unwrap();
    let changes = object["changes"].as_array().unwrap();
    assert_eq!((changes.len(), &changes[0]["bytes"]), (1, &json!(4096)), "{object}");
}

#[test]
fn sizes_that_round_to_one_text_are_exact() {
    let folder = tempfile::tempdir().unwrap();
    let entries = |size: u64| {
        ["alloc", "free_requested", "free_completed"].map(|action| {
            let frames = json!([frame("alloc", "/u/a.py", 1)]);
            json!({"action": action, "addr": 1 << 20, "size": size, "stream": 0, "time_us": 0, "frames": frames})
        })
    };
    let sizes = [1 << 20, 1 << 20, (1 << 20) + 1, (1 << 20) + 1, 4096, 4096];
    let entries: Vec<Value> = sizes.into_iter().flat_map(entries).collect();
    let path = folder.path().join("sizes.json");
    fs::write(&path, json!({"segments": [], "device_traces": [entries]}).to_string()).unwrap();
    let text = answer(&["churn", path.to_str().unwrap()]);
    let has = |size: &str| text.lines().any(|line| line.starts_with(&format!("{:>7} {size:>11} ", 2)));
    assert!(has("1048576 B") && has("1048577 B") && has("4.00 KiB"), "{text}");
}

#[test]
fn no_two_rows_have_the_same_text() {
    let folder = tempfile::tempdir().unwrap();
    let deep = |folder: &str, line: u64| {
        let frames = (0..9).map(|at| frame("f", &format!("/{folder}/m.py"), if at == 7 { line } else { at }));
        Value::Array(frames.collect())
    };
    let of_one = [deep("a", 70), deep("a", 71), deep("b", 70)];
    let one = write(&folder.path().join("one.json"), &of_one);
    // What both have did not move, so that none of the others is one that moved.
    let both = ["a", "b", "c"].map(|folder| deep(folder, 99));
    let write = |name: &str, stacks: &[Value]| write(&folder.path().join(name), &[stacks, &both].concat());
    let before = write("before.json", &of_one);
    let after = write("after.json", &[deep("b", 71), deep("c", 71)]);
    let rows = |arguments: &[&str]| {
        let text = String::from_utf8(run(arguments).stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let callers = |at: usize| lines.get(at + 1).filter(|line| line.trim_start().starts_with('←'));
        let site = |(at, line): (usize, &&str)| {
            let call = &line[line.find("  f (")?..];
            Some(format!("{call}{}", callers(at).unwrap_or(&"")))
        };
        lines.iter().enumerate().filter_map(site).collect::<Vec<String>>()
    };
    for (arguments, n) in [
        (&["top", &one][..], 3),
        (&["leaks", &one], 3),
        (&["churn", &one], 3),
        (&["at", "end", &one], 3),
        (&["diff", &before, &after], 5),
    ] {
        for frames in ["1", "4", "100"] {
            let with_frames = [arguments, &["--frames", frames]].concat();
            let arguments = if arguments[0] == "at" { arguments } else { &with_frames[..] };
            let found = rows(arguments);
            assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), n, "{arguments:?}: {found:#?}");
            assert_eq!(found.len(), n, "{arguments:?}: {found:#?}");
        }
    }
}
