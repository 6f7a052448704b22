//! Trials: short programs that are started to see what happens.

#![forbid(unsafe_code)]

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use memreel_snapshot::{Snapshot, pickle};
use tempfile::TempDir;

use crate::run::preloadable::{in_path, why_not};

/// The longest time of a trial.
const LIMIT: Duration = Duration::from_secs(60);

/// Starts a command, and waits for its end. Returns whether it succeeded, and what it wrote to standard error.
///
/// # Errors
/// It cannot be started, or does not end.
pub(super) fn started(command: &mut Command) -> io::Result<(bool, String)> {
    let folder = tempfile::tempdir()?;
    let said = folder.path().join("stderr");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&said)?);
    let mut child = command.spawn()?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begun.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            return Err(io::Error::other(format!("it did not end within {} s", LIMIT.as_secs())));
        }
        thread::sleep(Duration::from_millis(5));
    };
    Ok((status.success(), String::from_utf8_lossy(&fs::read(&said)?).into_owned()))
}

/// Returns why the loader does not preload a library, in its own words.
///
/// # Errors
/// There is no program to try it with.
pub(super) fn loads(library: &Path) -> io::Result<Result<(), String>> {
    let program = in_path("true".as_ref()).ok_or_else(|| io::Error::other("there is no program `true`"))?;
    // A program without glibc's loader reports nothing about it.
    if let Some(unrecorded) = why_not(program.as_os_str()) {
        return Err(io::Error::other(unrecorded.why));
    }
    let (is_fine, said) = started(Command::new(program).env("LD_PRELOAD", library))?;
    let why = said.lines().find(|line| line.contains("cannot be preloaded") || line.contains("rror loading"));
    Ok(match why {
        None if is_fine => Ok(()),
        why => Err(why.map_or_else(|| said.trim().to_owned(), str::to_owned)),
    })
}

/// A recording into a folder that is removed.
pub(super) struct Recorded {
    folder: TempDir,
    /// What the program and memreel printed on standard error.
    pub(super) said: String,
}

impl Recorded {
    /// Records the heap of a program, as a user does; `memreel` has the words that start this program.
    ///
    /// # Errors
    /// The text says why it cannot be recorded.
    pub(super) fn of(
        memreel: &[std::ffi::OsString],
        program: &[std::ffi::OsString],
    ) -> Result<Recorded, String> {
        let folder = tempfile::tempdir().map_err(|error| format!("cannot create a folder: {error}"))?;
        let [first, words @ ..] = memreel else {
            return Err("the program's own path is unknown".into());
        };
        let mut command = Command::new(first);
        command.args(words).args(["record", "--heap", "-o"]).arg(folder.path().join("run.pickle"));
        command.arg("--").args(program);
        let (is_fine, said) = started(&mut command).map_err(|error| error.to_string())?;
        let why =
            || said.lines().last().unwrap_or("it failed without a message").trim_start_matches("memreel: ");
        if is_fine { Ok(Recorded { folder, said }) } else { Err(why().to_owned()) }
    }

    /// Returns the snapshots of its processes, one by one.
    pub(super) fn snapshots(&self) -> impl Iterator<Item = Snapshot> {
        let found = fs::read_dir(self.folder.path()).into_iter().flatten().flatten();
        let files: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
        files.into_iter().filter_map(|file| pickle::load(file).ok())
    }
}
