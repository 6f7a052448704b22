//! What the user of `memreel attach` asked for: a file, and an end by Ctrl-C.

#![forbid(unsafe_code)]

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use signal_hook::{
    consts::signal::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use tempfile::{Builder, NamedTempFile};

use crate::failure::Failure;

/// How often the user asked for the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked(Arc<AtomicUsize>);

impl Asked {
    /// Heeds the signals that end programs, from now on.
    pub(super) fn new() -> Result<Asked, Failure> {
        let asked = Asked::default();
        let count = asked.0.clone();
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            signals.forever().for_each(|_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        })?;
        Ok(asked)
    }

    pub(super) fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The file of the snapshot, which is there as a whole or not at all.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    file: Option<NamedTempFile>,
}

impl Output {
    pub(super) fn create(path: PathBuf) -> Result<Output, Failure> {
        if path.is_dir() {
            return Err(Failure::usage(format!("{} is a folder; name a file", path.display())));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = Builder::new();
        // As other files of the user; temporary ones are private.
        builder.permissions(Permissions::from_mode(0o666)).prefix(".memreel-").suffix(".tmp");
        let file = builder.tempfile_in(folder).map_err(|error| Failure::unwritable(&path, error))?;
        Ok(Output { path, file: Some(file) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file, and gives it its name.
    pub(super) fn fill(
        &mut self,
        write: impl FnOnce(&mut File) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        write(file.as_file_mut())?;
        if let Ok(before) = fs::metadata(&self.path) {
            // As a file of this name was.
            let _ = file.as_file().set_permissions(before.permissions());
        }
        file.persist(&self.path).map_err(|error| Failure::unwritable(&self.path, error.error))?;
        Ok(())
    }
}
