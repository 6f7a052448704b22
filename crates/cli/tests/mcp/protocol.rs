//! Wrong messages, several calls at once, and the end of a session.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    io::Write,
    process::{Command, Stdio},
};

use serde_json::json;

use crate::{session::Session, snapshot};

#[test]
fn an_unknown_tool_is_an_error_of_the_protocol() {
    let mut session = Session::begin(&[]);
    for name in ["no_such_tool", "fix", "record", "top --json", ""] {
        let message = session.request("tools/call", &json!({"name": name, "arguments": {}}));
        assert_eq!(message["error"]["code"], -32602, "{message}");
        assert!(message["error"]["message"].as_str().unwrap().contains("unknown tool"), "{message}");
    }
}

#[test]
fn wrong_arguments_are_refused_with_advice() {
    let file = snapshot("oom.pickle");
    let rows = [
        ("top", json!({}), "top needs the parameter \"files\""),
        ("top", json!({"files": []}), "files: give a list of 1 to 1024 values"),
        ("top", json!({"files": [7]}), "files: give the path of a file"),
        ("top", json!({"files": [file], "svg": "/tmp/x.svg"}), "has no parameter \"svg\"; it has files, "),
        ("top", json!({"files": [file], "n": "many"}), "invalid value 'many' for '-n <COUNT>'"),
        ("top", json!({"files": [file], "n": "--json"}), "invalid value '--json' for '-n <COUNT>'"),
        ("top", json!({"files": [file], "by": "colour"}), "[possible values: stack, function, "),
        ("top", json!({"files": [file], "by": "file", "tree": true}), "cannot be used with"),
        ("top", json!({"files": [file], "device": "--json"}), "is not a device"),
        ("top", json!({"files": [file], "device": 5}), "no device 5"),
        ("at", json!({"files": [file], "at": "--help"}), "not a moment"),
        ("leaks", json!({"files": [file], "between": ["a", "--json"]}), "cannot start with -"),
        ("leaks", json!({"files": [file], "between": ["a", "b"]}), "no scopes were recorded"),
        ("gate", json!({"files": [file]}), "limit"),
        ("diff", json!({"before": file}), "diff needs the parameter \"after\""),
    ];
    let mut session = Session::begin(&[]);
    for (tool, arguments, why) in rows {
        let answer = session.call(tool, &arguments);
        assert!(answer.is_error, "{tool} {arguments}: {answer:?}");
        assert!(answer.texts.concat().contains(why), "{tool} {arguments}: {answer:?}");
    }
}

#[test]
fn calls_at_once_have_their_own_answers() {
    let mut session = Session::begin(&[]);
    let files = ["oom.pickle", "oom_fragment.pickle", "pending_free.pickle", "no_history.pickle"];
    let mut asked = BTreeMap::new();
    for n in 0..12 {
        let file = files[n % files.len()];
        let arguments = json!({"name": "summary", "arguments": {"files": [snapshot(file)]}});
        asked.insert(session.ask("tools/call", &arguments), file);
    }
    while !asked.is_empty() {
        let (id, answer) = session.answer();
        let file = asked.remove(&id).expect("an answer to a question that has none yet");
        assert!(answer.texts[0].contains(file), "{file}: {answer:?}");
    }
}

#[test]
fn lines_that_are_no_messages_do_not_end_the_session() {
    let mut session = Session::begin(&[]);
    session.send("this is not JSON");
    session.send("");
    // Longer than any message may be.
    session.send(&format!("\"{}\"", "x".repeat(2 << 20)));
    assert!(session.tools().len() > 10);
    assert!(session.close().1.success());
}

#[test]
fn a_session_ends_when_its_input_does() {
    let (rest, status) = Session::begin(&[]).close();
    assert!(rest.is_empty() && status.success(), "{status}");
    // Before it began.
    let (rest, status) = Session::start(&[]).close();
    assert!(rest.is_empty() && status.success(), "{status}");
    // With a question that is not answered yet: its answer is sent.
    let mut session = Session::begin(&[]);
    let id = session
        .ask("tools/call", &json!({"name": "summary", "arguments": {"files": [snapshot("oom.pickle")]}}));
    let (rest, status) = session.close();
    assert!(status.success() && rest.len() == 1 && rest[0]["id"] == id, "{rest:?}");
}

#[test]
fn a_wrong_beginning_is_reported() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_memreel"));
    let mut server = server
        .arg("mcp")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let first = "{\"jsonrpc\": \"2.0\", \"method\": \"notifications/initialized\"}\n";
    server.stdin.take().unwrap().write_all(first.as_bytes()).unwrap();
    let output = server.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(output.stderr.starts_with(b"memreel: "), "{output:?}");
}

#[test]
fn wrong_usage_is_2() {
    for options in
        [&["--root", "/no/such/folder"][..], &["--timeout", "0"], &["--max-answer", "3"], &["file.pickle"]]
    {
        let mut server = Command::new(env!("CARGO_BIN_EXE_memreel"));
        let output = server.arg("mcp").args(options).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {output:?}");
    }
}
