//! Opens the files of a process as it sees them: a path is resolved in the root of the process, and no link leads out
//! of it.

#![forbid(unsafe_code)]

use std::{
    fs::{self, File},
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};

/// How often a path is resolved again while its folders are renamed.
const ATTEMPTS: u32 = 100;

/// The root of a process.
#[derive(Debug)]
pub(crate) struct ProcessRoot {
    folder: OwnedFd,
    /// Its path in the view of the caller, if that can see it: paths in `maps` begin with it.
    path: PathBuf,
}

impl ProcessRoot {
    /// Opens the root that a process has now.
    pub(crate) fn of(process: u32) -> io::Result<ProcessRoot> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let link = format!("/proc/{process}/root");
        Ok(ProcessRoot { folder: open(&*link, flags, Mode::empty())?, path: fs::read_link(link)? })
    }

    /// Opens a folder.
    pub(crate) fn folder(&self, path: &str) -> io::Result<OwnedFd> {
        self.resolved(Path::new(path), OFlags::DIRECTORY)
    }

    /// Opens a file to read it, by its path in `maps`: no device, pipe or socket, which an opening alone could change or wait for.
    pub(crate) fn file(&self, path: &str) -> io::Result<File> {
        let path = Path::new(path).strip_prefix(&self.path).unwrap_or(Path::new(path));
        let found = File::from(self.resolved(path, OFlags::empty())?);
        if !found.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        File::open(format!("/proc/self/fd/{}", found.as_raw_fd()))
    }

    fn resolved(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
        let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let mut attempts = 0..ATTEMPTS;
        loop {
            match openat2(&self.folder, path, flags, Mode::empty(), how) {
                Err(rustix::io::Errno::AGAIN) if attempts.next().is_some() => {}
                Err(rustix::io::Errno::NOSYS) => {
                    return Err(io::Error::other("the system is older than Linux 5.6, which has openat2"));
                }
                done => return Ok(done?),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, process};

    use super::*;

    #[test]
    fn only_files_of_the_root_are_opened() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("file"), "").unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let link = |to: &str, name: &str| symlink(to, folder.path().join(name)).unwrap();
        link("/file", "inside");
        link(outside.path().join("file").to_str().unwrap(), "outside");
        link("/../../../../../../../../etc/passwd", "above");
        link(&format!("/proc/{}/root/etc/passwd", process::id()), "magic");
        fs::create_dir(folder.path().join("folder")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("pipe"), Mode::RUSR).unwrap();
        let path = folder.path().to_owned();
        let folder = open(&path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let (of_maps, root) = (path.join("file"), ProcessRoot { folder, path });
        assert!(root.file(of_maps.to_str().unwrap()).is_ok());
        for (path, is_there) in [
            ("/file", true),
            ("/inside", true),
            ("/outside", false),
            ("/above", false),
            ("/magic", false),
            ("/folder", false),
            ("/pipe", false),
        ] {
            assert_eq!(root.file(path).is_ok(), is_there, "{path}");
        }
        assert!(root.folder("/folder").is_ok() && root.folder("/file").is_err());
        let own = ProcessRoot::of(process::id()).unwrap();
        assert!(own.file("/proc/self/root/etc/passwd").is_err(), "a link of the system leads anywhere");
    }
}
