//! Chooses where the folder of a run is: not where the program may read, pack or remove it together with the current
//! folder.

#![forbid(unsafe_code)]

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use rustix::fs::{Access, access, statfs};

use crate::temporary::is_own;

/// The minimum free space where the tapes of a run are put: a full ring takes 192 MiB for each process.
const LEAST_BYTES: u64 = 4 << 30;

/// The kinds of file systems whose files are memory, which may count against the program's limit.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// Returns the candidate parent folders of a run's folder, best first; `output` is the absolute folder of the
/// snapshots.
pub(super) fn places(output: &Path) -> Vec<PathBuf> {
    let is_seen = env::current_dir().is_ok_and(|current| output.starts_with(current)) || !is_own(output);
    let [of_session, of_user] =
        ["XDG_RUNTIME_DIR", "TMPDIR"].map(|name| env::var_os(name).map(PathBuf::from));
    let temporary = of_user.map_or_else(|| vec!["/tmp".into(), "/var/tmp".into()], |folder| vec![folder]);
    let mut places: Vec<PathBuf> = of_session.into_iter().chain(temporary).collect();
    places.retain(|place| is_seen && !output.starts_with(place) && fits(place));
    // The user has chosen it, and it is the last where no other one has room.
    places.push(output.to_owned());
    places
}

/// Returns whether a folder may be written to, and has room on a disk.
fn fits(place: &Path) -> bool {
    let Ok(found) = statfs(place) else { return false };
    #[allow(clippy::unnecessary_cast, reason = "their types are those of the processor")]
    let (kind, free_bytes) = (found.f_type as i64, found.f_bavail as u64 * found.f_bsize as u64);
    place.is_absolute()
        && !IN_MEMORY.contains(&kind)
        && free_bytes >= LEAST_BYTES
        && may_write(place)
        && is_own(place)
}

/// Returns whether this process may make files in a folder.
pub(super) fn may_write(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|found| found.is_dir()) && access(folder, Access::WRITE_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_the_program_does_not_see_is_the_first() {
        let current = env::current_dir().unwrap();
        let chosen = tempfile::tempdir().unwrap();
        assert_eq!(places(chosen.path()), [chosen.path()], "beside the output");
        let all = places(&current.join("deep"));
        assert_eq!(all.last(), Some(&current.join("deep")));
        assert!(all[..all.len() - 1].iter().all(|place| fits(place)), "{all:?}");
        assert!(!fits(Path::new("/proc")) && !fits(Path::new("relative")) && !fits(Path::new("/no/such")));
    }

    /// Its owner exchanges the folder of the run for another, whose links the tapes of root's programs would follow.
    #[test]
    fn a_folder_that_another_user_can_change_is_not_chosen() {
        use std::os::unix::fs::{PermissionsExt, chown};

        let folder = tempfile::tempdir().unwrap();
        let set = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
        for (mode, is_chosen) in
            [(0o700, true), (0o1777, true), (0o777, false), (0o770, false), (0o755, true)]
        {
            set(mode);
            assert_eq!(is_own(folder.path()), is_chosen, "{mode:o}");
        }
        if chown(folder.path(), Some(65_534), None).is_ok() {
            assert!(!is_own(folder.path()) && !fits(folder.path()));
            assert_ne!(places(folder.path()), [folder.path()], "/tmp is before the folder of the output");
        }
    }
}
