//! The program: formats, statuses and messages.

use std::{fs, process::Command};

use crate::ask::snapshot;

/// How the program ended, and what it printed.
pub(crate) struct Done {
    pub(crate) status: i32,
    pub(crate) output: String,
    pub(crate) errors: String,
}

pub(crate) fn run(words: &[&str]) -> Done {
    let done = Command::new(env!("CARGO_BIN_EXE_memreel-fleet")).args(words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Done { status: done.status.code().unwrap(), output: text(done.stdout), errors: text(done.stderr) }
}

fn oom() -> String {
    snapshot("oom.pickle").display().to_string()
}

#[test]
fn every_format_has_the_answer() {
    let sql = "select action, count(*) as n from events group by 1 order by 1";
    let csv = run(&["query", sql, &oom(), "--format", "csv"]);
    assert_eq!((csv.status, &*csv.errors), (0, ""));
    let rows: Vec<&str> = csv.output.lines().collect();
    assert_eq!(rows[0], "action,n");
    assert!(rows.contains(&"oom,1"));
    let json = run(&["query", sql, &oom(), "--format", "json"]).output;
    assert_eq!(json.lines().count(), rows.len() - 1);
    let values: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (value, row) in values.iter().zip(&rows[1..]) {
        assert_eq!(format!("{},{}", value["action"].as_str().unwrap(), value["n"]), *row);
    }
    let table = run(&["query", sql, &oom()]).output;
    assert_eq!(table.lines().count(), rows.len() + 3);
    assert!(table.contains("| action "));
}

#[test]
fn an_answer_is_written_to_a_file_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("answer.parquet");
    let words =
        ["query", "select * from events", &oom(), "--format", "parquet", "-o", path.to_str().unwrap()];
    let done = run(&words);
    assert_eq!((done.status, &*done.output), (0, ""), "{}", done.errors);
    assert!(fs::read(&path).unwrap().starts_with(b"PAR1"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(run(&words[..5]).status, 2, "Parquet is not for a terminal");
}

#[test]
fn a_limit_says_that_there_is_more() {
    let some = run(&["query", "select event from events", &oom(), "--format", "csv", "--limit", "3"]);
    assert_eq!(some.output.lines().count(), 4);
    assert!(some.errors.contains("the first 3 rows"), "{}", some.errors);
    let all = run(&["query", "select event from events limit 3", &oom(), "--format", "csv", "--limit", "3"]);
    assert_eq!((all.output.lines().count(), &*all.errors), (4, ""));
}

#[test]
fn a_wrong_query_gets_the_names_near_to_it() {
    for (sql, expected) in [
        ("select sizes_bytes from events", "size_bytes of events"),
        ("select * from event", "the table events"),
        ("select stack_contain(stack, 'a') from events", "stack_contain"),
        ("select 1 +", "SQL error"),
        ("selec 1", "SQL error"),
    ] {
        let done = run(&["query", sql, &oom()]);
        assert_eq!((done.status, &*done.output), (2, ""), "{sql}: {}", done.errors);
        assert!(done.errors.contains(expected), "{sql}: {}", done.errors);
    }
}

#[test]
fn unreadable_files_have_a_status() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.pickle");
    fs::write(&broken, b"broken").unwrap();
    let broken = broken.display().to_string();
    let alone = run(&["query", "select count(*) from events", &broken]);
    assert_eq!((alone.status, &*alone.output), (3, ""), "{}", alone.errors);
    assert!(alone.errors.contains("broken.pickle: skipped: "));
    let among = run(&["query", "select count(*) as n from runs", &broken, &oom(), "--format", "csv"]);
    assert_eq!((among.status, &*among.output), (0, "n\n1\n"), "{}", among.errors);
    assert_eq!(run(&["query", "select 1", "/no/such/folder"]).status, 3);
    assert_eq!(run(&["query"]).status, 2);
    assert_eq!(run(&["query", "select 1", "ftp://host/file"]).status, 2);
}

#[test]
fn the_tables_are_listed() {
    assert_eq!(run(&["tables"]).output, memreel_fleet::page());
}
