//! The answers of a cluster are those of one machine.

use std::{
    fs, iter,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{
    ask::{snapshot, snapshots},
    machines::Machines,
    program::run,
};

/// A folder with every snapshot as a rank, from rank 1 on; rank 0 is one that ran out of memory.
fn ranks() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (rank, path) in iter::once(&snapshot("oom.pickle")).chain(&snapshots()).enumerate() {
        fs::copy(path, folder.path().join(format!("rank{rank}.pickle"))).unwrap();
    }
    folder
}

/// Returns the lines of an answer, sorted.
fn lines(words: &[&str]) -> Vec<String> {
    let done = run(&[words, &["--format", "csv"]].concat());
    assert_eq!((done.status, &*done.errors), (0, ""), "{words:?}");
    let mut lines: Vec<String> = done.output.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

const QUERIES: [&str; 24] = [
    "select action, count(*) as n, max(size_bytes), sum(size_bytes) from events group by action",
    "select rank, peak_bytes, peak_event, ooms, host, settings from runs order by rank, device",
    "select job, rank, file, count(*) from events where rank > 3 and rank < 20 group by 1, 2, 3",
    "select site, sum(represented_bytes) as bytes, count(*) from peak() group by site",
    "select * from peak('rank0.pickle') order by size_bytes, address limit 20",
    "select state, sum(size_bytes) from live_at('rank0.pickle', 20) group by 1",
    "select * from allocations where state = 'active_allocated'",
    "select * from events where action = 'oom'",
    "select top_frame(stack), count(*) from events where stack_contains(stack, '.py') group by 1",
    "select a.rank, b.stack from segments a join stacks b on a.file = b.file and a.stack_id = b.stack_id",
    "select * from blocks where size_bytes between 1000 and 100000 and address % 1024 = 0",
    "select function, filename, count(distinct line) from frames group by 1, 2",
    "select stage, name, count(*) from annotations group by stage, name",
    "select count(*) from stacks a right join runs b on a.rank < b.rank",
    "select a.rank, count(b.rank) from runs a left join events b on a.rank = b.rank and b.action = 'none' group by 1",
    "select b.rank from annotations a right join segments b on a.rank = b.rank and a.rank = 77",
    "select count(*) from runs a full join segments b on a.rank = b.rank and a.device = b.device and b.stream = 77",
    "select rank from runs where rank not in (select rank from events where action = 'oom')",
    "select rank, (select max(size_bytes) from events) from runs",
    "select rank, (select max(size_bytes) from events e where e.rank = r.rank) from runs r",
    "select rank, unnest(array[rank, peak_event, 5]) from runs",
    "select count(distinct rank), count(distinct device) from runs where 1 = 0",
    "select rank, action, count(*) from events group by rollup(rank, action)",
    "select count(*) from events where rank = 3 and size_bytes > (select avg(size_bytes) from events where rank = 4)",
];

#[test]
fn two_executors_have_the_answers_of_one_machine() {
    let machines = Machines::start(2);
    let folder = ranks();
    let folder = folder.path().to_str().unwrap();
    for sql in QUERIES {
        let expected = lines(&["query", sql, folder]);
        assert!(expected.len() > 1, "{sql} has rows");
        assert_eq!(lines(&["query", "--ballista", &machines.address, sql, folder]), expected, "{sql}");
    }
}

#[test]
fn a_cluster_reads_what_was_exported() {
    let machines = Machines::start(1);
    let (folder, out) = (ranks(), tempfile::tempdir().unwrap());
    let (folder, out) = (folder.path().to_str().unwrap(), out.path().to_str().unwrap());
    assert_eq!(run(&["export", "--parquet", out, folder]).status, 0);
    for sql in QUERIES.iter().filter(|sql| !sql.contains("peak(") && !sql.contains("live_at(")) {
        let expected = lines(&["query", sql, out]);
        assert_eq!(lines(&["query", "--ballista", &machines.address, sql, out]), expected, "{sql}");
    }
}

#[test]
fn files_that_an_executor_cannot_read_are_named() {
    let machines = Machines::start(1);
    let folder = tempfile::tempdir().unwrap();
    fs::copy(snapshot("oom.pickle"), folder.path().join("rank0.pickle")).unwrap();
    fs::write(folder.path().join("rank1.pickle"), b"broken: \"1\"").unwrap();
    let ask = |path: &Path, format: &str| {
        let sql = "select count(*) as n from runs";
        run(&["query", "--ballista", &machines.address, sql, path.to_str().unwrap(), "--format", format])
    };
    let among = ask(folder.path(), "csv");
    assert_eq!((among.status, &*among.output), (0, "n\n1\n"), "{}", among.errors);
    let here = run(&["query", "select 1 from runs", folder.path().to_str().unwrap()]);
    assert_eq!(among.errors, here.errors);
    assert!(among.errors.contains("rank1.pickle: skipped: "), "{}", among.errors);
    let alone = ask(&folder.path().join("rank1.pickle"), "table");
    assert_eq!((alone.status, &*alone.output), (3, ""), "{}", alone.errors);
    assert!(alone.errors.contains("no file of the query could be read"), "{}", alone.errors);
}

#[test]
fn without_a_cluster_there_is_a_message() {
    let path = snapshot("oom.pickle").display().to_string();
    let none = run(&["query", "--ballista", "df://127.0.0.1:1", "select 1 from events", &path]);
    assert_eq!((none.status, &*none.output), (3, ""));
    assert!(none.errors.contains("no scheduler at df://127.0.0.1:1"), "{}", none.errors);
    assert_eq!(run(&["query", "--ballista", "127.0.0.1:1", "select 1 from events", &path]).status, 2);
    let executor = run(&["executor", "df://127.0.0.1:1"]);
    assert_eq!(executor.status, 3);
    assert!(executor.errors.contains("no scheduler at df://127.0.0.1:1"), "{}", executor.errors);
    let machines = Machines::start(0);
    let idle = run(&["query", "--ballista", &machines.address, "select 1 from events", &path]);
    assert_eq!(idle.status, 3);
    assert!(idle.errors.contains("has no executors"), "{}", idle.errors);
    let port = machines.address.rsplit(':').next().unwrap();
    let second = run(&["scheduler", "--port", port]);
    assert_eq!(second.status, 3);
    assert!(second.errors.contains("choose another --port"), "{}", second.errors);
    let machines = Machines::start(1);
    // Ballista 55 answers the first three wrongly, the next two without an error, and the last one with one of its own.
    for sql in [
        "select count(*) from runs union all select count(*) from events",
        "select count(*) from stacks where exists (select 1 from runs)",
        "select count(*) from stacks a left join runs b on a.rank < b.rank",
        "select (select rank from runs)",
        "select count(*) from events where size_bytes > (select size_bytes from events where rank = 0)",
        "select count(*) from runs, generate_series(1, 3)",
    ] {
        let refused = run(&["query", "--ballista", &machines.address, sql, &path]);
        assert_eq!((refused.status, &*refused.output), (2, ""), "{sql}");
        assert!(refused.errors.contains("without --ballista"), "{sql}: {}", refused.errors);
    }
    let wrong = run(&["query", "--ballista", &machines.address, "select sizes_bytes from events", &path]);
    assert_eq!(wrong.status, 2);
    assert!(wrong.errors.contains("size_bytes of events"), "{}", wrong.errors);
}

#[test]
fn a_query_survives_an_executor() {
    let mut machines = Machines::start(2);
    let folder = tempfile::tempdir().unwrap();
    let bytes = fs::read(snapshot("oom.pickle")).unwrap();
    for rank in 0..1000 {
        fs::write(folder.path().join(format!("rank{rank}.pickle")), &bytes).unwrap();
    }
    let sql = "select site, count(*) as n, sum(represented_bytes) as bytes from allocations group by site";
    let folder = folder.path().to_str().unwrap();
    let expected = lines(&["query", sql, folder]);
    let client = Command::new(env!("CARGO_BIN_EXE_memreel-fleet"))
        .args(["query", "--ballista", &machines.address, sql, folder, "--format", "csv"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut client = client.unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(client.try_wait().unwrap().is_none(), "the query is not done yet");
    machines.kill(0);
    let killed = Instant::now();
    let done = client.wait_with_output().unwrap();
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{errors}\n{}", machines.report());
    let mut found: Vec<String> = String::from_utf8(done.stdout).unwrap().lines().map(str::to_owned).collect();
    found.sort();
    assert_eq!(found, expected);
    println!("the answer came {:.1} s after the executor was killed", killed.elapsed().as_secs_f64());
}
