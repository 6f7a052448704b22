//! The files that `save_on_oom` writes: one for the first failed request, or one for each.

use std::{
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::error::{OutOfMemory, Result};

const NUMBER: &str = "{n}";
const PROCESS: &str = "{pid}";

/// The paths for the snapshots of failed requests.
#[derive(Debug)]
pub(super) struct OomFiles {
    template: PathBuf,
    /// The number of failures so far. Of a template without a number, those whose file is written or being
    /// written: at most one.
    n: AtomicU64,
}

impl OomFiles {
    pub(super) fn new(template: PathBuf) -> OomFiles {
        OomFiles { template, n: AtomicU64::new(0) }
    }

    /// Writes the file of a failure with `save`, and adds its path, or the reason why it could not be written,
    /// to the figures. Without a number in the template, a file that was written is kept.
    pub(super) fn save(&self, figures: &mut OutOfMemory, save: impl FnOnce(&Path) -> Result<()>) {
        let number = match self.is_numbered() {
            true => self.n.fetch_add(1, Ordering::Relaxed),
            false => match self.n.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => 0,
                Err(_) => return figures.kept_snapshot = Some(self.path(0)),
            },
        };
        let path = self.path(number);
        match save(&path) {
            Ok(()) => (figures.snapshot, figures.snapshot_failure) = (Some(path), None),
            Err(error) => {
                figures.snapshot_failure = Some(error.to_string());
                if !self.is_numbered() {
                    // The next failure tries again.
                    self.n.store(0, Ordering::Relaxed);
                }
            }
        }
    }

    fn is_numbered(&self) -> bool {
        self.template.to_str().is_some_and(|template| template.contains(NUMBER))
    }

    /// Returns the path of a failure's file. A path that is not UTF-8 has no placeholders.
    fn path(&self, number: u64) -> PathBuf {
        match self.template.to_str() {
            None => self.template.clone(),
            Some(template) => {
                let of_process = template.replace(PROCESS, &process::id().to_string());
                of_process.replace(NUMBER, &number.to_string()).into()
            }
        }
    }
}
