//! A file that cannot be read is named, and the query goes on.

use std::fs;

use memreel_fleet::Fleet;

use crate::ask::{open, rows, snapshot};

#[tokio::test]
async fn broken_files_are_left_out_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let good = fs::read(snapshot("oom.pickle")).unwrap();
    fs::write(folder.path().join("rank0.pickle"), &good).unwrap();
    fs::write(folder.path().join("rank1.pickle"), &good[..good.len() / 2]).unwrap();
    fs::write(folder.path().join("rank2.pickle"), b"").unwrap();
    fs::write(folder.path().join("rank3.pickle"), b"\x80\x04}\x8c\x05epochK\x03s.").unwrap();
    fs::write(folder.path().join("notes.txt"), b"a folder's other files are not read").unwrap();
    let fleet = open(&[folder.path()]).await;
    for table in memreel_fleet::Table::ALL {
        let ranks = rows(&fleet, &format!("select distinct rank from {}", table.name())).await;
        assert!(ranks.iter().all(|row| row == &["0"]), "{table:?}");
    }
    let problems = fleet.problems();
    assert_eq!(problems.len(), 3, "{problems:?}");
    for (problem, rank) in problems.iter().zip(1..) {
        assert!(problem.contains(&format!("rank{rank}.pickle: skipped: ")), "{problem}");
    }
    assert!(!fleet.are_all_broken());
    let broken = open(&[&folder.path().join("rank1.pickle")]).await;
    assert_eq!(rows(&broken, "select count(*) from events").await, [["0"]]);
    assert!(broken.are_all_broken());
}

#[tokio::test]
async fn nothing_at_an_address_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for address in ["", "/none.pickle", "/*.pickle"] {
        let address = format!("{}{address}", folder.path().display());
        let error = Fleet::open(std::slice::from_ref(&address)).await.unwrap_err().to_string();
        assert!(error.contains(&address), "{error}");
    }
}

#[tokio::test]
async fn only_queries_are_accepted() {
    let fleet = open(&[&snapshot("oom.pickle")]).await;
    for sql in ["drop table events", "create table a as select 1", "copy events to '/tmp/x.csv'", "set a = 1"]
    {
        assert!(fleet.sql(sql).await.is_err(), "{sql}");
    }
}

#[tokio::test]
async fn a_moment_needs_a_file_and_an_event() {
    let fleet = open(&[&snapshot("oom.pickle"), &snapshot("oom_fragment.pickle")]).await;
    for (sql, expected) in [
        ("select * from live_at('none.pickle', 1)", "no snapshot of this query"),
        ("select * from live_at('oom.pickle')", "live_at takes a file"),
        ("select * from live_at('oom.pickle', -1)", "an event number"),
        ("select * from peak(1)", "a text in quotes"),
    ] {
        let error = fleet.sql(sql).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{sql}: {error}");
    }
    assert_eq!(rows(&fleet, "select count(*) from live_at('oom.pickle', 99999999)").await, [["0"]]);
}
