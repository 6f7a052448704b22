//! What a query does not need is not read: the counters of `EXPLAIN ANALYZE` say so.

use std::{fs, path::Path};

use memreel_fleet::Fleet;
use memreel_snapshot::pickle;
use tempfile::TempDir;

use crate::ask::{open, rows, snapshot};

/// Returns a counter of the scan; its values are shown as `7.74 K` from a thousand on, so tests use smaller ones.
async fn counter(fleet: &Fleet, sql: &str, name: &str) -> String {
    let plan = rows(fleet, &format!("explain analyze {sql}")).await;
    let text = plan.concat().concat();
    let scan = text.split("MemreelScan").nth(1).unwrap_or_else(|| panic!("no scan in {text}"));
    let value = scan.split(&format!("{name}=")).nth(1).unwrap_or_else(|| panic!("no {name} in {scan}"));
    value.split([',', ']']).next().unwrap().to_owned()
}

/// A folder with eight ranks.
fn ranks() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..8 {
        let name = if rank % 2 == 0 { "oom_fragment.pickle" } else { "oom.pickle" };
        fs::copy(snapshot(name), folder.path().join(format!("rank{rank}.pickle"))).unwrap();
    }
    folder
}

#[tokio::test]
async fn a_filter_on_ranks_reads_these_files_alone() {
    let folder = ranks();
    let fleet = open(&[folder.path()]).await;
    for (filter, n_files) in [
        ("rank = 3", 1),
        ("rank in (1, 2, 7)", 3),
        ("rank >= 2 and rank < 5", 3),
        ("file like '%rank6.pickle'", 1),
        ("rank is not null", 8),
    ] {
        let sql = format!("select sum(size_bytes) from events where {filter}");
        assert_eq!(counter(&fleet, &sql, "files_read").await, n_files.to_string(), "{filter}");
    }
    let sql = "select count(*) from events where rank = 8";
    assert_eq!(rows(&fleet, sql).await, [["0"]]);
}

/// However the optimiser simplifies a condition, the rows are those that meet it.
#[tokio::test]
async fn conditions_that_are_never_or_always_met_hold() {
    let path = snapshot("oom.pickle");
    let n_events = pickle::load(&path).unwrap().n_events();
    let fleet = open(&[&path]).await;
    for (filter, n) in [
        ("size_bytes < 10 and size_bytes > 20", 0),
        ("event = event", n_events),
        ("rank is null", n_events),
        ("rank = 0 or rank <> 0", 0),
        ("rank is null and null", 0),
        ("action in (select 'oom')", 1),
        ("event < (select 3)", 3),
        ("not (action <> 'oom')", 1),
        ("size_bytes + 1 > 0 and stack_id >= 0", n_events),
    ] {
        let sql = format!("select count(*) from events where {filter}");
        assert_eq!(rows(&fleet, &sql).await, [[n.to_string()]], "{filter}");
    }
}

#[tokio::test]
async fn the_largest_size_makes_no_text_of_a_stack() {
    let path = snapshot("oom_fragment.pickle");
    let largest = pickle::load(&path).unwrap().device_traces[0].iter().map(|entry| entry.size).max().unwrap();
    let fleet = open(&[&path]).await;
    let sql = "select max(size_bytes) from events";
    assert_eq!(rows(&fleet, sql).await, [[largest.to_string()]]);
    assert_eq!(counter(&fleet, sql, "stack_texts_made").await, "0");
    assert_ne!(counter(&fleet, "select max(stack) from events", "stack_texts_made").await, "0");
}

#[tokio::test]
async fn conditions_drop_rows_before_their_stacks_become_texts() {
    let path = snapshot("oom_fragment.pickle");
    let entries = pickle::load(&path).unwrap().device_traces.remove(0);
    let fleet = open(&[&path]).await;
    let largest = entries.iter().map(|entry| entry.size).max().unwrap();
    let middle = entries[entries.len() / 2].time_us;
    for (filter, n) in [
        (
            "action = 'oom'",
            entries.iter().filter(|e| e.action == Some(memreel_snapshot::Action::Oom)).count(),
        ),
        (&*format!("size_bytes >= {largest}"), entries.iter().filter(|e| e.size == largest).count()),
        (&*format!("time_us < {middle}"), entries.iter().filter(|e| e.time_us < middle).count()),
    ] {
        assert!(n > 0 && n < entries.len(), "{filter} drops some");
        let sql = format!("select stack from events where {filter}");
        assert_eq!(rows(&fleet, &sql).await.len(), n, "{filter}");
        assert_eq!(counter(&fleet, &sql, "rows_dropped").await, (entries.len() - n).to_string(), "{filter}");
    }
    let (some, all) = ("select stack from events where action = 'oom'", "select stack from events");
    let made = |text: String| text.parse::<usize>().unwrap();
    let (some, all) =
        (counter(&fleet, some, "stack_texts_made").await, counter(&fleet, all, "stack_texts_made").await);
    assert!(made(some.clone()) < made(all.clone()), "{some} of {all}");
}

#[tokio::test]
async fn every_path_to_a_file_finds_it_once() {
    let folder = ranks();
    let path = folder.path();
    let text = |rest: &str| format!("{}/{rest}", path.display());
    for (addresses, n_files) in [
        (vec![text("rank0.pickle")], 1),
        (vec![text("")], 8),
        (vec![text("rank0.pickle"), text("")], 8),
        (vec![text("rank[0-2].pickle")], 3),
        (vec![format!("file://{}", path.display())], 8),
        (vec![format!("file://{}/rank?.pickle", path.display())], 8),
        (vec![text("../") + path.file_name().unwrap().to_str().unwrap()], 8),
    ] {
        let fleet = Fleet::open(&addresses).await.unwrap();
        assert_eq!(fleet.files().len(), n_files, "{addresses:?}");
        let sql = "select count(distinct file), count(distinct rank) from runs";
        assert_eq!(rows(&fleet, sql).await, [vec![n_files.to_string(); 2]]);
    }
    let job = path.file_name().unwrap().to_str().unwrap();
    assert_eq!(rows(&open(&[path]).await, "select distinct job from runs").await, [[job]]);
    assert!(Path::new(path).exists());
}

#[tokio::test]
async fn a_thousand_files_have_every_row() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = fs::read(snapshot("oom.pickle")).unwrap();
    let n_events = pickle::from_slice(&bytes).unwrap().n_events();
    for rank in 0..1000 {
        fs::write(folder.path().join(format!("rank{rank}.pickle")), &bytes).unwrap();
    }
    let fleet = open(&[folder.path()]).await;
    let sql = "select count(*), count(distinct rank) from events";
    assert_eq!(rows(&fleet, sql).await, [[(1000 * n_events).to_string(), "1000".to_owned()]]);
    let sql = "select a.rank from runs a join runs b on a.rank = b.rank + 1 order by 1 limit 3";
    assert_eq!(rows(&fleet, sql).await, [["1"], ["2"], ["3"]]);
}
