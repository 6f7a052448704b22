//! A file is saved as a whole or not at all, whatever fails.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use memreel_snapshot::{Snapshot, pickle, validate};

use crate::fixtures::fixtures;

fn snapshot() -> Snapshot {
    pickle::load(fixtures("torch-2.11/snapshots").join("oom_fragment.pickle")).unwrap()
}

/// A writer that takes N bytes and then fails, as a full disk does.
struct FullAfter(usize);

impl Write for FullAfter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = bytes.len().min(self.0);
        self.0 -= n;
        if n == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(n) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_saved_file_is_the_bytes_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.pickle");
    fs::write(&path, "an earlier one").unwrap();
    pickle::save(&snapshot(), &path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), pickle::to_vec(&snapshot()));
    assert_eq!(names(folder.path()), ["snapshot.pickle"], "no temporary file stays");
}

#[test]
fn a_writer_that_fails_anywhere_is_an_error() {
    let snapshot = snapshot();
    let n_bytes = pickle::to_vec(&snapshot).len();
    for limit in [0, 1, 100, n_bytes / 2, n_bytes - 1] {
        let error = pickle::write(&snapshot, FullAfter(limit)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
    pickle::write(&snapshot, FullAfter(n_bytes)).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_an_error() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    assert_eq!(pickle::write(&snapshot(), full).unwrap_err().kind(), io::ErrorKind::StorageFull);
    let error = pickle::save(&snapshot(), "/dev/full").unwrap_err();
    assert!(error.is_io() && error.to_string().contains("/dev/full"), "{error}");
    assert!(error.to_string().contains("not a file"), "a device is no place to rename to: {error}");
}

#[test]
fn a_missing_folder_is_an_error_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing").join("snapshot.pickle");
    let error = pickle::save(&snapshot(), &path).unwrap_err();
    assert!(error.is_io(), "{error}");
    for part in ["missing", "untouched", "check that the folder exists"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_folder_or_an_unwritable_folder_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = pickle::save(&snapshot(), folder.path()).unwrap_err();
    assert!(error.is_io() && error.to_string().contains("not a file"), "{error}");
    // Even root cannot create files under /proc.
    #[cfg(target_os = "linux")]
    {
        let error = pickle::save(&snapshot(), "/proc/self/snapshot.pickle").unwrap_err();
        assert!(error.is_io() && error.to_string().contains("/proc/self/snapshot.pickle"), "{error}");
    }
    assert!(names(folder.path()).is_empty());
}

#[cfg(unix)]
#[test]
fn a_new_file_has_usual_permissions_and_an_earlier_one_keeps_its_own() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777;
    File::create(folder.path().join("usual")).unwrap();
    pickle::save(&Snapshot::default(), folder.path().join("new")).unwrap();
    assert_eq!(mode("new"), mode("usual"));
    fs::set_permissions(folder.path().join("usual"), fs::Permissions::from_mode(0o640)).unwrap();
    pickle::save(&Snapshot::default(), folder.path().join("usual")).unwrap();
    assert_eq!(mode("usual"), 0o640);
}

#[cfg(unix)]
#[test]
fn a_link_stays_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let [real, link] = ["real", "link"].map(|name| folder.path().join(name));
    fs::write(&real, "an earlier one").unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    pickle::save(&Snapshot::default(), &link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(pickle::load(&real).is_ok());
}

#[test]
fn a_missing_file_is_an_error_with_its_path() {
    let error = pickle::load("no/such/file.pickle").unwrap_err();
    assert!(error.is_io() && error.to_string().contains("no/such/file.pickle"), "{error}");
    assert!(validate::check_file("no/such/file.pickle").unwrap_err().is_io());
}
