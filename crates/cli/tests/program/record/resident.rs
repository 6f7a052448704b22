//! The table of a heap's process, which is looked at from outside: of programs that are killed, and that run others.

#![forbid(unsafe_code)]

use std::{fs, path::PathBuf};

use memreel::analysis::{DeviceOwners, owners};
use memreel_snapshot::Snapshot;

use super::{Run, program, record};

const FILE: [&str; 3] = ["--heap", "-o", "run.pickle"];
const MIB: u64 = 1 << 20;

fn run(arguments: &[&str]) -> Run {
    let program = program("held");
    record(&FILE, &[&[&*program], arguments].concat()).run()
}

fn table(snapshot: &Snapshot) -> DeviceOwners {
    owners(&[snapshot]).into_iter().find(|table| table.host.is_some()).expect("the process was looked at")
}

fn now(table: &DeviceOwners, owner: &str) -> u64 {
    let row = table.rows.iter().find(|row| row.owner == owner);
    u64::try_from(row.and_then(|row| row.now_bytes).unwrap_or(0)).unwrap()
}

#[test]
fn what_a_killed_program_held_is_known() {
    let run = run(&["killed"]);
    assert_eq!(run.status, Some(137), "{}", run.err);
    let table = table(&run.snapshot("run.pickle"));
    let said: u64 = run.out.trim().rsplit_once(' ').unwrap().1.parse().unwrap();
    let found = now(&table, "program");
    assert!(found.abs_diff(said) <= said / 100 + (64 << 10), "{found}, not {said}\n{}", run.err);
    // 19.6 MB of small blocks were freed around those that are left.
    assert!(now(&table, "malloc, unused") > 15_000_000, "{}", run.err);
    assert!(now(&table, "memreel") > 0 && now(&table, "unexplained") == 0, "{}", run.err);
}

/// The process goes on with its number, and its memory is that of another program.
#[test]
fn a_program_is_not_taken_for_the_one_before() {
    let run = run(&["exec"]);
    assert_eq!(run.status, Some(0), "{}", run.err);
    let looked_at: Vec<Vec<u64>> = run
        .snapshots()
        .iter()
        .map(|(_, snapshot)| snapshot.resident().iter().map(|report| report.resident_bytes).collect())
        .collect();
    assert_eq!(looked_at.len(), 2, "{}", run.err);
    let of_small = |all: &&Vec<u64>| all.iter().all(|bytes| *bytes < 40 * MIB);
    let of_large = |all: &&Vec<u64>| all.iter().any(|bytes| *bytes >= 40 * MIB);
    let (small, large): (Vec<_>, Vec<_>) = looked_at.iter().partition(of_small);
    assert!(small.len() == 1 && !small[0].is_empty(), "{looked_at:?}");
    assert!(large.iter().all(of_large), "{looked_at:?}");
}

#[test]
fn a_file_that_a_program_leaves_in_shared_memory_is_named() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        return eprintln!("skipped: no shared memory here");
    };
    let file = folder.path().join("batch").display().to_string();
    let line = |mode: &str| {
        let run = record(&FILE, &[&program("resident"), mode, &file]).run();
        assert_eq!(run.status, Some(0), "{}", run.err);
        (run.err.lines().find(|line| line.contains(&file)).map(str::to_owned), run.err)
    };
    let (said, err) = line("left");
    let said = said.unwrap_or_else(|| panic!("the file is left: {err}"));
    assert!(said.contains("no process has open") && said.contains("batch (16.00 MiB)"), "{said}");
    assert_eq!(line("untouched").0, None, "it was there before");
}

/// A group of processes with a limit, which is removed in the end; `None` where none can be made.
struct Group(PathBuf);

impl Group {
    fn of_bytes(bytes: u64) -> Option<Group> {
        let name = format!("memreel-test-{}", std::process::id());
        let kinds = [("memory", "memory.limit_in_bytes"), (".", "memory.max")];
        kinds.into_iter().find_map(|(root, limit)| {
            let folder = PathBuf::from("/sys/fs/cgroup").join(root).join(&name);
            fs::create_dir(&folder).ok()?;
            let group = Group(folder);
            fs::write(group.0.join(limit), bytes.to_string()).ok()?;
            Some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn what_a_group_held_when_the_kernel_killed_it_is_known() {
    const LIMIT: u64 = 256 * MIB;
    let Some(group) = Group::of_bytes(LIMIT) else {
        return eprintln!("skipped: no group of processes can be made here");
    };
    let run = run(&["group", &group.0.join("cgroup.procs").display().to_string()]);
    assert_eq!(run.status, Some(137), "{}{}", run.out, run.err);
    let table = table(&run.snapshot("run.pickle"));
    let host = table.host.as_ref().unwrap();
    let of_group = host.group.unwrap();
    assert_eq!(of_group.limit_bytes, Some(LIMIT), "{}", run.err);
    // Whatever else counts, most of it is what the program asked for.
    assert!(now(&table, "program") > LIMIT * 3 / 4, "{}", run.err);
    assert!(run.err.contains("256.00 MiB"), "{}", run.err);
}
