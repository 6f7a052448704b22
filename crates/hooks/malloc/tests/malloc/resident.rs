//! The table of a program's resident memory, against programs that know theirs.

use std::{collections::BTreeMap, path::Path};

use memreel::analysis::{DeviceOwners, owners};
use tempfile::TempDir;

use super::{HERE, cc, recorded, snapshots};

/// What the program has beside what it says: the C library, stacks of `main`, buffers.
const BESIDE_BYTES: i128 = 512 << 10;

struct Seen {
    table: DeviceOwners,
    /// What the program printed.
    said: BTreeMap<String, i128>,
}

impl Seen {
    fn now(&self, owner: &str) -> i128 {
        self.table.rows.iter().find(|row| row.owner == owner).and_then(|row| row.now_bytes).unwrap_or(0)
    }

    /// Checks each row that the program knows, and that the rows add up to what the kernel says.
    fn check(&self) {
        for (owner, bytes) in &self.said {
            let found = self.now(owner);
            let most_wrong = bytes / 100 + BESIDE_BYTES;
            assert!((found - bytes).abs() <= most_wrong, "{owner}: {found}, not {bytes}\n{}", self.text());
        }
        let used = self.table.used_now_bytes.map(i128::from).unwrap();
        let unexplained = self.now("unexplained").abs();
        assert!(unexplained * 100 <= used, "{unexplained} of {used} are unexplained\n{}", self.text());
    }

    fn text(&self) -> String {
        let row = |row: &memreel::analysis::OwnerRow| {
            format!("{:?} {:?} {:?}", row.owner, row.now_bytes, row.peak_bytes)
        };
        self.table.rows.iter().map(row).collect::<Vec<_>>().join("\n")
    }
}

/// Runs the program of a mode, which is looked at when it ends: it writes a snapshot then.
fn run(folder: &TempDir, mode: &str) -> Seen {
    run_with(folder, mode, &[], &[])
}

/// Returns what `malloc_trim` returns to the kernel at the end of a mode.
fn returned(folder: &TempDir, mode: &str) -> i128 {
    run_with(folder, mode, &["trim"], &[]).said["returned"]
}

fn run_with(folder: &TempDir, mode: &str, words: &[&str], variables: &[(&str, &str)]) -> Seen {
    let program = folder.path().join("resident");
    if !program.exists() {
        cc(&["-o", program.to_str().unwrap(), &format!("{HERE}/resident.c"), "-lpthread", "-lrt"]);
    }
    let run = folder.path().join(format!("{mode}{}{}", words.len(), variables.len()));
    std::fs::create_dir(&run).unwrap();
    let mut command = recorded(&program, &run, &[] as &[&Path]);
    command.env("MEMREEL", format!("all,dump=exit,file={}", folder.path().join("exit.pickle").display()));
    command.envs(variables.iter().copied());
    let done = command.arg(mode).arg(folder.path().join("data")).args(words).output().unwrap();
    assert!(done.status.success(), "{mode}: {}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let line = |line: &str| {
        let (row, bytes) = line.rsplit_once(": ").unwrap();
        (row.to_owned(), bytes.parse().unwrap())
    };
    let snapshots = snapshots(&run);
    let tables = owners(&[&snapshots[0]]);
    let table = tables.into_iter().find(|table| table.host.is_some());
    Seen { table: table.expect("the kernel reported"), said: text.lines().map(line).collect() }
}

#[test]
fn what_malloc_keeps_is_a_row_and_what_a_trim_returns_is_foretold() {
    let folder = TempDir::new().unwrap();
    let seen = run(&folder, "survivors");
    seen.check();
    let foretold = i128::from(seen.table.host.unwrap().unused_page_bytes);
    let returned = returned(&folder, "survivors");
    // Pages that blocks of the recorder are in, in part, cannot be returned.
    assert!((foretold - returned).abs() * 20 <= returned, "{foretold} foretold, {returned} returned");
}

/// Of the arenas of threads a trim returns what is between blocks, and not what is behind all of them.
#[test]
fn what_a_trim_returns_of_arenas_is_foretold() {
    let folder = TempDir::new().unwrap();
    let seen = run(&folder, "arenas");
    seen.check();
    let foretold = i128::from(seen.table.host.unwrap().unused_page_bytes);
    let returned = returned(&folder, "arenas");
    let most_wrong = returned / 20 + BESIDE_BYTES;
    assert!((foretold - returned).abs() <= most_wrong, "{foretold} foretold, {returned} returned");
}

#[test]
fn what_one_arena_for_all_threads_saves_is_foretold() {
    let folder = TempDir::new().unwrap();
    let many = run(&folder, "arenas");
    let one = run_with(&folder, "arenas", &[], &[("MALLOC_ARENA_MAX", "1")]);
    let foretold = i128::from(many.table.host.as_ref().unwrap().one_arena_saves_bytes);
    let saved = many.now("malloc, unused") - one.now("malloc, unused");
    println!("{foretold} foretold, {saved} saved");
    assert!((foretold - saved).abs() * 20 <= saved, "{foretold} foretold, {saved} saved\n{}", many.text());
    assert_eq!(one.table.host.as_ref().unwrap().n_arenas, 0);
    assert!(many.table.host.as_ref().unwrap().n_arenas >= 3);
}

#[test]
fn each_kind_of_memory_is_a_row() {
    let folder = TempDir::new().unwrap();
    for mode in ["shared", "stacks", "file", "arenas", "untouched"] {
        run(&folder, mode).check();
    }
}
