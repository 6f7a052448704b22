//! Tests the cache folder in every state in which a gate may find it: a run is only slower then.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tempfile::TempDir;
use xshell::Shell;

use super::{Cache, Part, trim};

/// A folder with a cache, and target folders of clones.
struct Machine(TempDir);

impl Machine {
    fn new() -> Machine {
        Machine(tempfile::tempdir().unwrap())
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("cache")
    }

    fn clone_at(&self, folder: PathBuf, name: &str) -> Cache {
        let shell = Shell::new().unwrap();
        shell.change_dir(Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap());
        Cache::at(Some(folder), &shell, &self.0.path().join(name))
    }

    fn a_clone(&self, name: &str) -> Cache {
        self.clone_at(self.folder(), name)
    }

    /// Creates a clone in which cargo has built a third-party crate, and one of the workspace.
    fn built(&self, name: &str) -> Cache {
        let clone = self.a_clone(name);
        for file in ["deps/libserde-1f.rlib", "deps/libmemreel-2e.rlib", ".fingerprint/serde-1f/lib-serde"] {
            let file = clone.target.join("debug").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "built").unwrap();
            fs::File::open(&file).unwrap().set_modified(long_ago()).unwrap();
        }
        clone
    }
}

fn long_ago() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)
}

fn restored(clone: &Cache) -> bool {
    clone.restore(Part::Debug);
    clone.target.join("debug/.fingerprint/serde-1f/lib-serde").exists()
}

#[test]
fn another_clone_has_what_third_parties_made_with_its_times() {
    let machine = Machine::new();
    machine.built("first").keep();
    let second = machine.a_clone("second");
    assert!(restored(&second));
    let deps = second.target.join("debug/deps");
    assert_eq!(fs::metadata(deps.join("libserde-1f.rlib")).unwrap().modified().unwrap(), long_ago());
    assert!(!deps.join("libmemreel-2e.rlib").exists());
}

#[test]
fn a_folder_that_cannot_be_written_is_no_cache() {
    let machine = Machine::new();
    let file = machine.0.path().join("file");
    fs::write(&file, []).unwrap();
    // No user can make a folder there, not even root.
    for folder in [file.join("cache"), PathBuf::from("/proc/memreel")] {
        let clone = machine.clone_at(folder, "first");
        assert!(clone.folder().is_none());
        assert!(!restored(&clone));
        clone.keep();
        clone.note_passed("fleet", "1f");
        assert!(!clone.has_passed("fleet", "1f"));
    }
}

#[test]
fn what_another_compiler_made_is_not_used() {
    let machine = Machine::new();
    machine.built("first").keep();
    let other = Cache { compiler: "other".to_owned(), ..machine.a_clone("second") };
    assert!(!restored(&other));
}

#[test]
fn other_manifests_take_the_newest_entry() {
    let machine = Machine::new();
    machine.built("first").keep();
    let changed = Cache { manifests: "other".to_owned(), ..machine.a_clone("second") };
    assert!(restored(&changed));
}

#[test]
fn a_folder_that_is_deleted_in_the_middle_is_made_again() {
    let machine = Machine::new();
    let first = machine.built("first");
    first.note_passed("fleet", "1f");
    assert!(first.has_passed("fleet", "1f"));
    fs::remove_dir_all(machine.folder()).unwrap();
    assert!(!restored(&machine.a_clone("second")) && !first.has_passed("fleet", "1f"));
    fs::remove_dir_all(machine.folder()).unwrap();
    first.keep();
    assert!(restored(&machine.a_clone("third")));
}

#[test]
fn an_entry_that_another_gate_left_half_is_not_used() {
    let machine = Machine::new();
    let first = machine.built("first");
    let half = machine.folder().join("builds/.debug-1/.fingerprint/serde-1f");
    fs::create_dir_all(&half).unwrap();
    fs::write(half.join("lib-serde"), "half").unwrap();
    assert!(!restored(&machine.a_clone("second")));
    first.keep();
    first.keep();
    assert!(restored(&machine.a_clone("third")));
}

#[test]
fn the_entry_that_was_used_least_recently_goes_first() {
    let machine = Machine::new();
    let entry = |name: &str, age_s: u64| {
        let entry = machine.folder().join("tools").join(name);
        fs::create_dir_all(&entry).unwrap();
        fs::write(entry.join("file"), [0; 100]).unwrap();
        let used = SystemTime::now() - Duration::from_secs(age_s);
        fs::File::open(&entry).unwrap().set_modified(used).unwrap();
        entry
    };
    let (older, newer, oldest) = (entry("older", 20), entry("newer", 10), entry("oldest", 30));
    trim(&machine.folder(), 300).unwrap();
    assert!(oldest.exists());
    trim(&machine.folder(), 299).unwrap();
    assert_eq!([oldest.exists(), older.exists(), newer.exists()], [false, true, true]);
    trim(&machine.folder(), 0).unwrap();
    assert!(!newer.exists());
}
