//! A cgroup with a limit of memory, where one can be made.

use std::{
    fs,
    path::{Path, PathBuf},
    process,
};

/// The folder of a hierarchy, and its file for the limit: of version 1 and version 2.
const HIERARCHIES: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

/// A cgroup, removed when it is dropped.
pub(crate) struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    /// Makes one; `None` where this process may not.
    pub(crate) fn make(limit_bytes: u64) -> Option<Cgroup> {
        HIERARCHIES.into_iter().find_map(|(root, limit)| {
            let folder = Path::new(root).join(format!("memreel-test-{}", process::id()));
            fs::create_dir(&folder).ok()?;
            let group = Cgroup { folder };
            fs::write(group.folder.join(limit), limit_bytes.to_string()).ok()?;
            // Without this file there is no swap to limit.
            let _ = fs::write(group.folder.join("memory.swap.max"), "0");
            Some(group)
        })
    }

    /// The file that takes the numbers of its processes.
    pub(crate) fn processes(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}
