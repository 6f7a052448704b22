//! The identity and the view of a process, which must not change during an attachment.

#![forbid(unsafe_code)]

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt,
    path::PathBuf,
};

/// The identity of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    /// The user, the group and the other groups by which it opens files.
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) groups: Vec<u32>,
    /// Its program, in its own view.
    pub(super) program: PathBuf,
    /// Where its program and its stack start: `exec` moves them.
    image: [String; 2],
    /// Its mounts, processes and users.
    namespaces: [PathBuf; 3],
    /// The device and the inode of its root.
    root: (u64, u64),
}

impl Identity {
    pub(super) fn of(process: u32) -> io::Result<Identity> {
        let at = |name: &str| format!("/proc/{process}/{name}");
        let program = fs::read_link(at("exe"))?;
        let [users, groups, others] = ["Uid", "Gid", "Groups"].map(|name| numbers(process, name));
        // The real, effective, saved and file system's: the last opens files.
        let last = |numbers: Option<Vec<u32>>| numbers.and_then(|numbers| numbers.get(3).copied());
        let unknown = || io::Error::new(ErrorKind::InvalidData, "its user is unknown");
        let stat = fs::read(at("stat"))?;
        let stat = String::from_utf8_lossy(&stat);
        let words: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
        let word = |at: usize| words.get(at).copied().unwrap_or_default().to_owned();
        let namespace = |name: &str| fs::read_link(at(name));
        let root = fs::metadata(at("root"))?;
        Ok(Identity {
            user: last(users).ok_or_else(unknown)?,
            group: last(groups).ok_or_else(unknown)?,
            groups: others.ok_or_else(unknown)?,
            program,
            image: [word(23), word(25)],
            namespaces: [namespace("ns/mnt")?, namespace("ns/pid")?, namespace("ns/user")?],
            root: (root.dev(), root.ino()),
        })
    }

    /// Returns whether both processes see the same files, processes and users, unlike a container's.
    pub(super) fn sees_what_sees(&self, other: &Identity) -> bool {
        (&self.namespaces, self.root) == (&other.namespaces, other.root)
    }
}

/// Returns a line of `status`.
pub(super) fn field(process: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

fn numbers(process: u32, name: &str) -> Option<Vec<u32>> {
    field(process, name)?.split_ascii_whitespace().map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{self, Command};

    use rustix::process::{getegid, geteuid, getgroups};

    use super::*;

    #[test]
    fn an_identity_lasts_until_exec() {
        let own = Identity::of(process::id()).unwrap();
        assert_eq!((own.user, own.group), (geteuid().as_raw(), getegid().as_raw()));
        let mut groups: Vec<u32> = getgroups().unwrap().into_iter().map(|group| group.as_raw()).collect();
        groups.sort_unstable();
        assert_eq!(own.groups, groups);
        assert_eq!(own, Identity::of(process::id()).unwrap());
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        let identity = Identity::of(other.id()).unwrap();
        assert!(identity != own && identity.sees_what_sees(&own), "{identity:?}");
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
