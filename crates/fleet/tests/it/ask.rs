//! Queries, whose answers are texts here, and the snapshots that they are about.

use std::path::{Path, PathBuf};

use datafusion::arrow::{array::RecordBatch, util::display::array_value_to_string};
use memreel_fleet::Fleet;

/// Opens files.
pub(crate) async fn open(paths: &[&Path]) -> Fleet {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    Fleet::open(&paths).await.unwrap()
}

/// Returns the rows of an answer, a text for each value; empty for null.
pub(crate) async fn rows(fleet: &Fleet, sql: &str) -> Vec<Vec<String>> {
    let answer = fleet.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let batches = answer.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    batches.iter().flat_map(texts).collect()
}

fn texts(batch: &RecordBatch) -> Vec<Vec<String>> {
    let text =
        |row: usize| batch.columns().iter().map(move |column| array_value_to_string(column, row).unwrap());
    (0..batch.num_rows()).map(|row| text(row).collect()).collect()
}

/// Returns the rows of an answer, sorted.
pub(crate) async fn sorted(fleet: &Fleet, sql: &str) -> Vec<Vec<String>> {
    let mut rows = rows(fleet, sql).await;
    rows.sort();
    rows
}

/// Returns every snapshot of the fixtures, and of the folders that `MEMREEL_SNAPSHOTS` names.
pub(crate) fn snapshots() -> Vec<PathBuf> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut folders =
        ["torch-2.11/snapshots", "torch-2.11/ranks", "synthetic"].map(|name| fixtures.join(name)).to_vec();
    folders.extend(std::env::var("MEMREEL_SNAPSHOTS").iter().flat_map(std::env::split_paths));
    let mut found = Vec::new();
    for folder in folders {
        for entry in std::fs::read_dir(folder).unwrap() {
            found.push(entry.unwrap().path().canonicalize().unwrap());
        }
    }
    found.retain(|path| path.extension().is_some_and(|end| end == "pickle"));
    found.sort();
    assert!(found.len() > 20, "the fixtures are there");
    found
}

/// Returns one of the fixtures of PyTorch 2.11.
pub(crate) fn snapshot(name: &str) -> PathBuf {
    let found = snapshots().into_iter().find(|path| path.ends_with(format!("snapshots/{name}")));
    found.unwrap_or_else(|| panic!("{name} is not a fixture"))
}
