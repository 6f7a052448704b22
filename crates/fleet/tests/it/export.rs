//! The folder of Parquet files gives the same answers as the snapshots that it was made of.

use std::{fs, path::Path};

use memreel_fleet::{Fleet, Table};
use tempfile::TempDir;

use crate::{
    ask::{open, rows, snapshot, snapshots, sorted},
    program::run,
};

/// Snapshots under the names of ranks, and their export.
fn exported() -> (TempDir, TempDir) {
    let (snapshots_of, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (rank, path) in snapshots().iter().enumerate() {
        // Every third has no rank.
        let name = if rank % 3 == 2 { format!("x{rank}.pickle") } else { format!("rank{rank}.pickle") };
        fs::copy(path, snapshots_of.path().join(name)).unwrap();
    }
    fs::write(snapshots_of.path().join("rank99.pickle"), b"broken").unwrap();
    let folder = snapshots_of.path().display().to_string();
    let done = run(&["export", "--parquet", &out.path().display().to_string(), &folder]);
    assert_eq!(done.status, 0, "{}", done.errors);
    assert!(done.errors.contains("rank99.pickle: skipped: "), "{}", done.errors);
    (snapshots_of, out)
}

/// Every row of a table, in some order that both have.
async fn all(fleet: &Fleet, table: Table) -> Vec<Vec<String>> {
    sorted(fleet, &format!("select * from {}", table.name())).await
}

#[tokio::test]
async fn every_row_survives() {
    let (snapshots_of, out) = exported();
    let (before, after) = (open(&[snapshots_of.path()]).await, open(&[out.path()]).await);
    for table in Table::ALL {
        let (before, after) = (all(&before, table).await, all(&after, table).await);
        assert!(!before.is_empty());
        assert!(before == after, "{table:?}: {} and {} rows", before.len(), after.len());
    }
    assert_eq!(after.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn conditions_hold_on_exported_rows() {
    let (snapshots_of, out) = exported();
    let (before, after) = (open(&[snapshots_of.path()]).await, open(&[out.path()]).await);
    for sql in [
        "select rank, count(*), max(size_bytes) from events where rank between 6 and 16 group by 1",
        "select count(*) from events where rank is null",
        "select file, count(*) from events where action = 'oom' and size_bytes > 1000 group by 1",
        "select site, sum(represented_bytes) from allocations where state = 'active_allocated' group by 1",
        "select count(*) from events where file like '%rank1.pickle'",
        "select max(peak_bytes) from runs where job is not null",
    ] {
        let (before, after) = (sorted(&before, sql).await, sorted(&after, sql).await);
        assert!(!before.is_empty(), "{sql}");
        assert_eq!(before, after, "{sql}");
    }
    let plan =
        sorted(&after, "explain analyze select count(*) from events where rank = 4").await.concat().concat();
    assert!(plan.contains("files_read=1,"), "{plan}");
}

#[tokio::test]
async fn a_second_export_replaces_the_first() {
    let (snapshots_of, out) = exported();
    let n_files = count(out.path());
    let words = [
        "export",
        "--parquet",
        &out.path().display().to_string(),
        &snapshots_of.path().display().to_string(),
    ];
    assert_eq!(run(&words).status, 0);
    assert_eq!(count(out.path()), n_files);
    assert_eq!(n_files, Table::ALL.len() * snapshots().len());
}

fn count(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { count(&path) } else { 1 }).sum()
}

#[tokio::test]
async fn a_snapshot_beside_its_export_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rank0.pickle");
    fs::copy(snapshot("oom.pickle"), &path).unwrap();
    let out = folder.path().join("out");
    let words = ["export", "--parquet", out.to_str().unwrap(), path.to_str().unwrap()];
    assert_eq!(run(&words).status, 0);
    let sql = "select count(*) from runs";
    for (address, expected) in [(folder.path(), "1"), (&*path, "1"), (&*out, "1")] {
        assert_eq!(rows(&open(&[address]).await, sql).await, [[expected]], "{address:?}");
    }
    let error = open(&[&out]).await.sql("select * from peak()").await.unwrap_err().to_string();
    assert!(error.contains("need snapshots"), "{error}");
}
