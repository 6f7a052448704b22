//! Chooses a folder for temporary files that no other user can change. `sudo -E` and `su` may leave that user's
//! `TMPDIR` to root.

#![forbid(unsafe_code)]

use std::{env, fs, os::unix::fs::MetadataExt, path::Path};

use rustix::process::geteuid;

/// Uses `/tmp` for temporary files if another user can change the folder that the environment names.
pub(crate) fn choose() {
    if !is_own(&env::temp_dir()) {
        // It fails if a folder was chosen before.
        let _ = tempfile::env::override_temp_dir(Path::new("/tmp"));
    }
}

/// Returns whether only this user and root can replace what this user makes in a folder.
pub(crate) fn is_own(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|found| {
        [0, geteuid().as_raw()].contains(&found.uid())
            && (found.mode() & 0o022 == 0 || found.mode() & 0o1000 != 0)
    })
}
