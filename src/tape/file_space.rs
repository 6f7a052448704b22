//! Tracks whether the folder of a run has room for another tape: tapes that ended too fast to be saved are still there,
//! and use disk space.
#![forbid(unsafe_code)]

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::process::pause;

/// The name of the file that exists while there is no room. A process that continues unrecorded adds a byte to it.
const NAME: &str = "full";

/// How long a process waits for room before it continues unrecorded.
const PATIENCE: Duration = Duration::from_millis(20);

/// The space in the folder of a run.
///
/// ```
/// use memreel::integrate::FileSpace;
///
/// let folder = tempfile::tempdir()?;
/// let space = FileSpace::of(folder.path());
/// assert!(space.wait());
/// space.close()?;
/// assert!(!space.wait(), "20 ms later");
/// assert_eq!((space.open(), space.open()), (1, 0));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FileSpace(PathBuf);

impl FileSpace {
    /// Returns the space in a folder.
    #[must_use]
    pub fn of(folder: impl AsRef<Path>) -> FileSpace {
        FileSpace(folder.as_ref().join(NAME))
    }

    /// Announces that there is no room.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn close(&self) -> io::Result<()> {
        OpenOptions::new().append(true).create(true).open(&self.0).map(|_| ())
    }

    /// Announces that there is room. Returns how many processes continued unrecorded meanwhile.
    pub fn open(&self) -> u64 {
        let n_bytes = fs::metadata(&self.0).map_or(0, |found| found.len());
        let _ = fs::remove_file(&self.0);
        n_bytes
    }

    /// Waits for room, at most 20 ms. Returns whether there is room; if not, this process is counted.
    #[must_use]
    pub fn wait(&self) -> bool {
        let begun = Instant::now();
        while self.0.exists() {
            if begun.elapsed() >= PATIENCE {
                let counted = OpenOptions::new().append(true).open(&self.0);
                return counted.and_then(|mut file| file.write_all(b".")).is_err();
            }
            pause::sleep(Duration::from_millis(1));
        }
        true
    }
}
