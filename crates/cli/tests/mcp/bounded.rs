//! Answers that are too long, and questions that take too much.

#![forbid(unsafe_code)]

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
};

use serde_json::{Value, json};

use crate::{session::Session, snapshot};

#[test]
fn a_long_answer_is_read_in_parts() {
    let file = snapshot("transformer_all_stacks.pickle");
    let whole = Session::begin(&["--max-answer", "10000000"]).call("trace", &json!({"files": [file]}));
    let [whole] = &whole.texts[..] else { panic!("{whole:?}") };
    let mut session = Session::begin(&["--max-answer", "2000"]);
    let (mut read, mut n_parts) = (String::new(), 0);
    loop {
        let n_skipped = read.lines().count();
        let part = session.call("trace", &json!({"files": [file], "skip_lines": n_skipped}));
        assert!(!part.is_error && part.texts[0].chars().count() <= 2000);
        read.push_str(&part.texts[0]);
        n_parts += 1;
        let end = read.lines().count();
        let Some(note) = part.texts.get(1) else { break };
        let n_lines = whole.lines().count();
        let shown = format!(
            "lines {} to {end} of {n_lines} are shown; skip_lines {end} shows the next",
            n_skipped + 1
        );
        assert!(note.starts_with(&shown), "{note}");
    }
    assert!(n_parts > 3);
    assert_eq!(&read, whole);
    let behind = session.call("trace", &json!({"files": [file], "skip_lines": 1_000_000}));
    assert!(behind.texts[0].starts_with("the answer has only "), "{behind:?}");
}

#[test]
fn objects_that_are_too_long_are_left_out_whole() {
    let files = [snapshot("oom.pickle"), snapshot("transformer_all_stacks.pickle")];
    let all = Session::begin(&[]).call("top", &json!({"files": files, "json": true, "n": 1}));
    let objects = all.structured["objects"].as_array().unwrap();
    assert_eq!(objects.len(), 2);
    let mut session = Session::begin(&["--max-answer", "1000"]);
    let cut = session.call("top", &json!({"files": files, "json": true, "n": 1}));
    assert_eq!(cut.structured["objects"], json!([objects[0]]));
    assert!(
        cut.texts[1]
            .contains("lines 1 to 1 of 2 are shown; skip_lines 1 shows the next; n, frames, device can")
    );
    // One that is too long itself has no structured form.
    let cut = session.call("top", &json!({"files": files[1], "json": true}));
    assert_eq!((cut.structured, cut.texts[0].chars().count()), (Value::Null, 1000));
    assert!(cut.texts[1].starts_with("the start of line 1 of 1 is shown; n, "), "{}", cut.texts[1]);
}

/// Writes a history of allocations that takes time and much more than 32 MiB to read.
fn write_long_history(path: &Path) {
    let mut out = BufWriter::new(File::create(path).unwrap());
    write!(out, "{{\"segments\":[],\"device_traces\":[[").unwrap();
    for n in 0..500_000 {
        let comma = if n == 0 { "" } else { "," };
        let event =
            json!({"action": "alloc", "addr": n * 512, "size": 512, "stream": 0, "time_us": n, "frames": []});
        write!(out, "{comma}{event}").unwrap();
    }
    writeln!(out, "]]}}").unwrap();
    out.flush().unwrap();
}

#[test]
fn a_question_that_takes_too_much_memory_ends_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("long.json");
    write_long_history(&file);
    let mut session = Session::begin(&["--max-memory", "32MiB"]);
    for _ in 0..2 {
        let answer = session.call("summary", &json!({"files": [file]}));
        assert!(answer.is_error, "{answer:?}");
        assert!(answer.texts.concat().contains("memory"), "{answer:?}");
    }
    assert!(!session.call("summary", &json!({"files": [snapshot("oom.pickle")]})).is_error);
    assert!(!Session::begin(&[]).call("summary", &json!({"files": [file]})).is_error);
}
