//! The files that `save_on_oom` writes: for the first failed request, or for each.

use std::{
    collections::BTreeMap,
    path::{self, Path, PathBuf},
    process,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    process::fork,
    trigger::{
        files::{
            template::{Placeholder, Template},
            verdict::{self, Existing},
        },
        oom::on_oom::{OnFailure, SnapshotOf},
    },
};
use memreel_snapshot::words::OutOfMemory;

/// The placeholders whose text is the same for all requests for a path.
const PLACEHOLDERS: [Placeholder; 4] =
    [Placeholder::Host, Placeholder::Rank, Placeholder::Pid, Placeholder::Number];

/// The paths for the snapshots of failed requests.
#[derive(Debug)]
pub(crate) struct OomFiles {
    template: Template,
    /// The number of failures so far. For a template without a number, the state of its file: a multiple of 4 that
    /// depends on the process if the path does, plus one of the numbers below.
    n: AtomicU64,
}

/// The file is being written.
const BEGUN: u64 = 1;
/// The file was written and is kept.
const WRITTEN: u64 = 2;

/// The files of a process by path.
type ByPlace = Mutex<BTreeMap<PathBuf, Weak<OomFiles>>>;

/// Returns the files of this process. A fork waits for the lock.
fn all() -> &'static Arc<ByPlace> {
    static ALL: OnceLock<Arc<ByPlace>> = OnceLock::new();
    ALL.get_or_init(|| {
        let all = Arc::default();
        fork::register(fork::Level::Allocator, &all);
        all
    })
}

impl OomFiles {
    fn new(template: PathBuf) -> OomFiles {
        OomFiles { template: Template::lenient(&template, &PLACEHOLDERS), n: AtomicU64::new(0) }
    }

    /// Returns the files of a template: those already in use in this process, so that two observers of one path do not
    /// overwrite each other's files.
    pub(crate) fn of(template: PathBuf) -> Arc<OomFiles> {
        let place = path::absolute(&template).unwrap_or_else(|_| template.clone());
        let mut all = all().lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, files| files.strong_count() > 0);
        if let Some(files) = all.get(&place).and_then(Weak::upgrade) {
            return files;
        }
        let files = Arc::new(OomFiles::new(template));
        all.insert(place, Arc::downgrade(&files));
        files
    }

    /// Writes the snapshot and the verdict of a failure, and adds the path, or the reason why it could not be written,
    /// to the figures. Without a number in the template, a file that was written is kept.
    pub(in crate::trigger) fn save(
        &self,
        figures: &mut OutOfMemory,
        on_failure: &OnFailure<'_>,
    ) -> SnapshotOf {
        if self.is_numbered() {
            let path = self.path(self.n.fetch_add(1, Ordering::Relaxed));
            write(figures, &path, on_failure);
            return SnapshotOf::Own;
        }
        let (path, process) = (self.path(0), self.process());
        let before = self.n.load(Ordering::Acquire);
        match before.checked_sub(process) {
            // Another observer of this failure wrote it.
            Some(WRITTEN) if figures.snapshot.as_ref() == Some(&path) => {}
            Some(WRITTEN) => figures.kept_snapshot = Some(path),
            // Another thread writes the file of an earlier failure.
            Some(BEGUN) => return SnapshotOf::Another,
            _ => {
                let begun = process + BEGUN;
                if self.n.compare_exchange(before, begun, Ordering::Acquire, Ordering::Relaxed).is_err() {
                    return SnapshotOf::Another;
                }
                let is_written = write(figures, &path, on_failure);
                // If it failed, the next failure tries again.
                self.n.store(if is_written { process + WRITTEN } else { 0 }, Ordering::Release);
            }
        }
        SnapshotOf::Own
    }

    /// Returns a number of this process, a multiple of 4, if the path depends on the process: after a fork, parent and
    /// child have different files.
    fn process(&self) -> u64 {
        if self.template.has(Placeholder::Pid) { u64::from(process::id()) << 2 } else { 0 }
    }

    fn is_numbered(&self) -> bool {
        self.template.has(Placeholder::Number)
    }

    /// Returns the path of a failure's file.
    fn path(&self, number: u64) -> PathBuf {
        self.template.failure(number)
    }
}

/// Writes a snapshot and its verdict, adds its path or the reason why it could not be written to the figures, and
/// returns whether it was written.
fn write(figures: &mut OutOfMemory, path: &Path, on_failure: &OnFailure<'_>) -> bool {
    on_failure.explain(figures);
    match (on_failure.save)(path) {
        Ok(()) => {
            (figures.snapshot, figures.snapshot_failure) = (Some(path.to_owned()), None);
            if let Some(verdict) = &figures.verdict {
                verdict::write(path, verdict, Existing::IsReplaced);
            }
            true
        }
        Err(error) => {
            figures.snapshot_failure = Some(error.to_string());
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use memreel_snapshot::words::DeviceId;

    use std::cell::{Cell, RefCell};

    use super::*;
    use memreel_snapshot::words::{Error, Result};

    fn save(files: &OomFiles, figures: &mut OutOfMemory, save: &dyn Fn(&Path) -> Result<()>) -> SnapshotOf {
        files.save(figures, &OnFailure { save, explain: &|_| None })
    }

    #[test]
    fn observers_of_one_path_share_its_files() {
        let [first, second] =
            ["shared-oom.pickle", "./shared-oom.pickle"].map(|path| OomFiles::of(path.into()));
        let (mut one, mut next) = (OutOfMemory::new(DeviceId(0)), OutOfMemory::new(DeviceId(0)));
        save(&first, &mut one, &|_| Ok(()));
        save(&second, &mut one, &|_| panic!("the first observer wrote the file of this failure"));
        save(&second, &mut next, &|_| panic!("it is kept"));
        assert_eq!((one.kept_snapshot.is_none(), one.snapshot), (true, next.kept_snapshot));
        let numbered = [(); 2].map(|()| OomFiles::of("shared-oom-{n}.pickle".into()));
        let paths = RefCell::new(Vec::new());
        for files in &numbered {
            save(files, &mut OutOfMemory::new(DeviceId(0)), &|path| {
                paths.borrow_mut().push(path.to_owned());
                Ok(())
            });
        }
        assert_eq!(paths.into_inner(), ["shared-oom-0.pickle", "shared-oom-1.pickle"].map(PathBuf::from));
        drop((first, second));
        let mut later = OutOfMemory::new(DeviceId(0));
        save(&OomFiles::of("shared-oom.pickle".into()), &mut later, &|_| Ok(()));
        assert!(later.snapshot.is_some(), "without observers a path is forgotten");
    }

    /// A request that fails while the first file is being written does not name a file that may never exist.
    #[test]
    fn a_kept_file_is_written() {
        let files = OomFiles::new("oom.pickle".into());
        let [mut first, mut meanwhile, mut next, mut last] = [(); 4].map(|()| OutOfMemory::new(DeviceId(0)));
        let (meanwhile_in, later) = (RefCell::new(&mut meanwhile), Cell::new(SnapshotOf::Own));
        save(&files, &mut first, &|_| {
            later.set(save(&files, &mut meanwhile_in.borrow_mut(), &|_| panic!("one file at a time")));
            Err(Error::misuse("the disk is full"))
        });
        assert_eq!(later.get(), SnapshotOf::Another);
        assert_eq!((&first.snapshot, meanwhile.kept_snapshot), (&None, None));
        assert!(first.snapshot_failure.is_some());
        save(&files, &mut next, &|_| Ok(()));
        save(&files, &mut last, &|_| panic!("it is kept"));
        let path = Some(PathBuf::from("oom.pickle"));
        assert_eq!((next.snapshot, last.kept_snapshot), (path.clone(), path));
    }
}
