//! Files that are written into folders of others.
#![cfg(unix)]
#![forbid(unsafe_code)]

use std::{
    fs::{self, Permissions},
    io::Write,
    os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use memreel_snapshot::{Snapshot, pickle};
use tempfile::TempDir;

const OTHER: u32 = 65_534;

/// A folder that everybody may write into, and a file of this user's own.
struct Shared {
    folder: TempDir,
    own: TempDir,
}

impl Shared {
    fn new(mode: u32) -> Shared {
        let [folder, own] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        let shared = Shared { folder, own };
        fs::write(shared.victim(), "keys").unwrap();
        shared
    }

    fn victim(&self) -> PathBuf {
        self.own.path().join("authorized_keys")
    }

    /// Plants a link of a user; `None` if this user may not.
    fn plant(&self, name: &str, to: &Path, owner: Option<u32>) -> Option<PathBuf> {
        let link = self.folder.path().join(name);
        symlink(to, &link).unwrap();
        match lchown(&link, owner, None) {
            Ok(()) => Some(link),
            Err(error) => {
                println!("skipped: cannot make a link of another user: {error}");
                None
            }
        }
    }
}

#[test]
fn a_link_that_another_user_planted_is_not_followed() {
    let shared = Shared::new(0o1777);
    let Some(link) = shared.plant("out.pickle", &shared.victim(), Some(OTHER)) else { return };
    let Some(folder) = shared.plant("folder", shared.own.path(), Some(OTHER)) else { return };
    for path in [link, folder.join("authorized_keys"), folder.join("new")] {
        let error = pickle::save(&Snapshot::default(), &path).unwrap_err().to_string();
        let wrong = format!("is a link of another user (uid {OTHER}) in a folder that others can write to");
        assert!(error.contains(&wrong), "{error}");
        let error = pickle::replace(&path, |file| file.write_all(b"text")).unwrap_err().to_string();
        assert!(error.contains(&wrong), "{error}");
        let error = pickle::remove(&path).unwrap_err().to_string();
        assert!(error.contains(&wrong), "{error}");
    }
    assert_eq!(fs::read(shared.victim()).unwrap(), b"keys");
    assert_eq!(fs::read_dir(shared.own.path()).unwrap().count(), 1);
}

/// Whose a link is and where it leads are read of one link, though another file has its name a moment later.
#[cfg(target_os = "linux")]
#[test]
fn a_link_that_changes_places_is_not_followed() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};

    let shared = Shared::new(0o1777);
    let Some(link) = shared.plant("out.pickle", &shared.victim(), Some(OTHER)) else { return };
    let file = shared.folder.path().join("other");
    fs::write(&file, "").unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = renameat_with(CWD, &file, CWD, &link, RenameFlags::EXCHANGE);
            }
        });
        for _ in 0..3_000 {
            let _ = pickle::replace(&link, |file| file.write_all(b"text"));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read(shared.victim()).unwrap(), b"keys");
}

#[test]
fn links_of_this_user_and_of_the_owner_are_followed() {
    for mode in [0o1777, 0o700] {
        let shared = Shared::new(mode);
        let link = shared.plant("out.pickle", &shared.victim(), None).unwrap();
        fs::set_permissions(shared.victim(), Permissions::from_mode(0o640)).unwrap();
        pickle::save(&Snapshot::default(), &link).unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert!(pickle::load(shared.victim()).is_ok());
        assert_eq!(shared.victim().metadata().unwrap().mode() & 0o777, 0o640);
        // A name that is not there yet, through a folder that is a link.
        let folder = shared.plant("folder", shared.own.path(), None).unwrap();
        pickle::replace(folder.join("new"), |file| file.write_all(b"text")).unwrap();
        assert_eq!(fs::read(shared.own.path().join("new")).unwrap(), b"text");
    }
    // In a folder that only its owner writes into, a link of anybody is the owner's will.
    let shared = Shared::new(0o755);
    let Some(link) = shared.plant("out.pickle", &shared.victim(), Some(OTHER)) else { return };
    pickle::save(&Snapshot::default(), link).unwrap();
    assert!(pickle::load(shared.victim()).is_ok());
}

#[test]
fn a_pipe_or_a_device_is_written_into_and_replaced_by_nothing() {
    pickle::replace("/dev/null", |file| file.write_all(b"text")).unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    assert!(pickle::save(&Snapshot::default(), "/dev/null").is_err());
    let file = tempfile::NamedTempFile::new().unwrap();
    let of_kernel = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file.as_file()));
    pickle::replace(of_kernel, |file| file.write_all(b"text")).unwrap();
    assert_eq!(fs::read(file.path()).unwrap(), b"text");
}

#[test]
fn a_failure_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.md");
    fs::write(&path, "before").unwrap();
    let failed = pickle::replace(&path, |file| {
        file.write_all(b"half")?;
        Err(std::io::ErrorKind::StorageFull.into())
    });
    assert!(failed.is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "before");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
