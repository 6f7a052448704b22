//! Writes the files of a set of triggers: completely, never over another file, and removing the oldest.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::SystemTime,
};

use crate::trigger::{
    cause::Cause,
    files::{
        pattern::Pattern,
        template::{Facts, Template},
        verdict,
        whole_file::WholeFile,
    },
};
use memreel_snapshot::{place::Folder, words::Result};

/// The files of a set of triggers.
#[derive(Debug)]
pub(in crate::trigger) struct Files {
    template: Template,
    /// The number of files to keep; `None` keeps all.
    keep: Option<usize>,
    /// The number of snapshots so far, including failed ones.
    n: AtomicU64,
}

impl Files {
    pub(in crate::trigger) fn new(template: Template, keep: Option<usize>) -> Files {
        Files { template, keep, n: AtomicU64::new(0) }
    }

    /// Writes the next file with `save` and returns its path. It has a temporary name until it is complete.
    pub(in crate::trigger) fn write(
        &self,
        cause: Cause,
        save: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let number = self.n.fetch_add(1, Ordering::Relaxed);
        let path = self.template.path(&Facts { time: SystemTime::now(), number, cause });
        let folder = path.parent().unwrap_or(Path::new("/"));
        // Removed on every path except the last.
        let whole = WholeFile::begin(&path)?;
        save(&whole.temporary())?;
        let path = whole.named()?;
        // The name is on disk only once its folder is synced, where that is possible.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        if let Some(keep) = self.keep {
            self.remove_old(folder, &path, keep);
        }
        Ok(path)
    }

    /// Removes all but the newest `keep` files of the template's pattern, with their verdicts. Files that cannot be
    /// removed are left.
    fn remove_old(&self, folder: &Path, newest: &Path, keep: usize) {
        let Some(pattern) = Pattern::new(&self.template) else { return };
        let (Ok(entries), Ok(folder)) = (fs::read_dir(folder), Folder::open(folder)) else { return };
        let mut others: Vec<(SystemTime, PathBuf)> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let is_ours = entry.file_name().to_str().is_some_and(|name| pattern.matches(name));
                let metadata = entry.metadata().ok().filter(|metadata| is_ours && metadata.is_file())?;
                let is_newest = Some(entry.file_name().as_os_str()) == newest.file_name();
                (!is_newest).then_some((metadata.modified().ok()?, entry.path()))
            })
            .collect();
        others.sort();
        let n_old = (others.len() + 1).saturating_sub(keep);
        for (_, path) in others.iter().take(n_old) {
            let names = [path.clone()].into_iter().chain(verdict::beside(path));
            names
                .filter_map(|path| path.file_name().map(ToOwned::to_owned))
                .for_each(|name| _ = folder.remove(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use memreel_snapshot::words::Error;

    use super::*;

    fn files(folder: &Path, name: &str, keep: Option<usize>) -> Files {
        let path = folder.join(name);
        Files::new(Template::parse(path.to_str().unwrap()).unwrap(), keep)
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn text(path: &Path) -> Result<()> {
        fs::write(path, "snapshot").map_err(|error| Error::io("cannot write", path, error))
    }

    #[test]
    fn a_file_that_is_there_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("snap.pickle"), "of someone else").unwrap();
        let files = files(folder.path(), "snap.pickle", None);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..5).for_each(|_| drop(files.write(Cause::Exit, text).unwrap())));
            }
        });
        assert_eq!(names(folder.path()).len(), 21);
        assert_eq!(fs::read(folder.path().join("snap.pickle")).unwrap(), b"of someone else");
        assert!(folder.path().join("snap-20.pickle").exists());
    }

    #[test]
    fn only_old_files_of_the_pattern_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let foreign = ["notes.txt", "snap-x.pickle", "snap-1.json"];
        foreign.iter().for_each(|name| fs::write(folder.path().join(name), "foreign").unwrap());
        fs::create_dir(folder.path().join("snap-77.pickle")).unwrap();
        let files = files(folder.path(), "snap-{n}.pickle", Some(2));
        for number in 0..5 {
            files.write(Cause::Exit, text).unwrap();
            fs::write(folder.path().join(format!("snap-{number}.verdict.txt")), "full").unwrap();
            // File systems have timestamps of a few milliseconds.
            thread::sleep(Duration::from_millis(20));
        }
        let kept = [
            "notes.txt",
            "snap-1.json",
            "snap-3.pickle",
            "snap-3.verdict.txt",
            "snap-4.pickle",
            "snap-4.verdict.txt",
            "snap-77.pickle",
            "snap-x.pickle",
        ];
        assert_eq!(names(folder.path()), kept);
    }

    #[test]
    fn folders_are_created_and_a_failure_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let written = files(folder.path(), "a/b/{cause}.pickle", None).write(Cause::Peak, text).unwrap();
        assert_eq!(written, folder.path().join("a/b/peak.pickle"));
        let failing = files(folder.path(), "c/snap.pickle", None);
        assert!(failing.write(Cause::Exit, |_| Err(Error::misuse("the disk is full"))).is_err());
        assert!(names(&folder.path().join("c")).is_empty());
        fs::write(folder.path().join("file"), "not a folder").unwrap();
        let error = files(folder.path(), "file/snap.pickle", None).write(Cause::Exit, text).unwrap_err();
        assert!(error.is_io() && error.to_string().starts_with("cannot create the folder"), "{error}");
    }
}
