//! The file of a run, `STEM.memreel`: the snapshots that `memreel record` wrote, and what it did not record.

#![forbid(unsafe_code)]

use std::{
    fmt, fs,
    io::Read,
    path::{Component, Path, PathBuf},
};

use memreel_snapshot::place::open_plain;
use serde::{Deserialize, Serialize};

use crate::text::clean;

/// The ending of such a file.
pub(crate) const ENDING: &str = "memreel";

/// The version of its keys. A reader refuses a newer one.
const VERSION: u32 = 1;

/// More than any run writes.
const MAX_BYTES: u64 = 256 << 20;

/// What a run recorded, and what it did not record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RunFile {
    /// The version of the keys.
    memreel_run: u32,
    /// The words of the command.
    pub(crate) program: Vec<String>,
    pub(crate) processes: Vec<RunProcess>,
    pub(crate) not_recorded: Vec<NotRecorded>,
    /// What could not be saved, each a sentence.
    pub(crate) failures: Vec<String>,
    pub(crate) failed_calls: Vec<FailedCall>,
}

/// Calls of a driver function that failed in one process with one status.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct FailedCall {
    pub(crate) process: u32,
    pub(crate) function: String,
    pub(crate) status: i32,
    /// Exact up to 15; then at least so often, and less than twice.
    pub(crate) n_times: u32,
}

/// A snapshot of the run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RunProcess {
    pub(crate) process: u32,
    pub(crate) rank: Option<String>,
    /// Its path, from the folder of the run's file.
    pub(crate) file: String,
    pub(crate) peak_bytes: u64,
    /// Whether it is one of many small processes, in the folder of these.
    pub(crate) is_helper: bool,
}

/// Processes with one name that ran unrecorded for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct NotRecorded {
    /// The program; null if it is not known.
    pub(crate) name: Option<String>,
    pub(crate) n_processes: u64,
    /// The reason, as the text that follows "ran unrecorded: ".
    pub(crate) why: String,
    /// Whether it is a system tool that holds hardly any memory: no gate fails because of it.
    pub(crate) is_minor: bool,
}

impl fmt::Display for NotRecorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotRecorded { name, n_processes, why, .. } = self;
        let name = name.as_deref().map(clean);
        match (name, *n_processes) {
            (Some(name), 1) => write!(f, "{name} ran unrecorded: {why}"),
            (Some(name), n) => write!(f, "{name} ran unrecorded, {n} processes: {why}"),
            (None, 1) => write!(f, "1 process ran unrecorded, {why}"),
            (None, n) => write!(f, "{n} processes ran unrecorded, {why}"),
        }
    }
}

impl RunFile {
    pub(crate) fn new(program: Vec<String>) -> RunFile {
        RunFile {
            memreel_run: VERSION,
            program,
            processes: Vec::new(),
            not_recorded: Vec::new(),
            failures: Vec::new(),
            failed_calls: Vec::new(),
        }
    }

    /// Returns whether a path is named as the file of a run.
    pub(crate) fn is_named_so(path: &Path) -> bool {
        path.extension().is_some_and(|ending| ending == ENDING)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Why it is not the file of a run.
    pub(crate) fn read(path: &Path) -> Result<RunFile, String> {
        let mut bytes = Vec::new();
        let read = open_plain(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
        read.map_err(|error| format!("cannot be read: {error}"))?;
        let run: RunFile = serde_json::from_slice(&bytes)
            .map_err(|error| format!("is not a run file of memreel record: {error}"))?;
        match run.memreel_run {
            VERSION => {}
            other => return Err(format!("has version {other}; this memreel reads version {VERSION}")),
        }
        match run.processes.iter().find(|process| !process.is_beside(path)) {
            Some(RunProcess { file, .. }) => Err(format!(
                "names {file:?}, which is not a file in its \
                 folder"
            )),
            None => Ok(run),
        }
    }

    /// Returns the snapshots of a run whose file is `path`, helpers after the others.
    pub(crate) fn snapshots(&self, path: &Path) -> Vec<PathBuf> {
        let mut processes: Vec<&RunProcess> = self.processes.iter().collect();
        processes.sort_by_key(|process| process.is_helper);
        processes.iter().map(|process| process.path(path)).collect()
    }
}

impl RunProcess {
    /// Returns the path of the snapshot, where `run` is that of the run's file.
    pub(crate) fn path(&self, run: &Path) -> PathBuf {
        match run.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(folder) => folder.join(&self.file),
            None => PathBuf::from(&self.file),
        }
    }

    /// Whether its path leads to no other folder, to no folder or pipe, and not to standard input. A file may be missing, and where
    /// a link leads is seen when it is opened.
    fn is_beside(&self, run: &Path) -> bool {
        let mut parts = Path::new(&self.file).components().peekable();
        let leads_down = parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)));
        let path = self.path(run);
        let is_file = || path.symlink_metadata().map_or(true, |found| found.is_file());
        leads_down && self.file != "-" && (is_file() || path.read_link().is_ok())
    }
}

/// Returns the files of runs that a path names: itself, or those in a folder.
pub(crate) fn runs_in(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return if RunFile::is_named_so(path) { vec![path.to_owned()] } else { Vec::new() };
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.retain(|path| RunFile::is_named_so(path) && path.is_file());
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_comes_back_equal_and_a_newer_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.memreel");
        let mut run = RunFile::new(vec!["ctest".into()]);
        let process = |file: &str, is_helper| RunProcess {
            process: 1,
            rank: None,
            file: file.into(),
            peak_bytes: 5,
            is_helper,
        };
        run.processes = vec![process("run-helpers/a.pickle", true), process("run.pickle", false)];
        fs::write(&path, serde_json::to_vec(&run).unwrap()).unwrap();
        assert_eq!(RunFile::read(&path), Ok(run.clone()));
        let [own, helper] = &run.snapshots(&path)[..] else { panic!("{run:?}") };
        assert_eq!(
            (own, helper),
            (&folder.path().join("run.pickle"), &folder.path().join("run-helpers/a.pickle"))
        );
        assert_eq!(run.snapshots(Path::new("run.memreel"))[0], Path::new("run.pickle"));
        fs::create_dir(folder.path().join("folder")).unwrap();
        for outside in ["", "-", "..", "../a.pickle", "a/../../b.pickle", "./a.pickle", "/a.pickle", "folder"]
        {
            let run = RunFile { processes: vec![process(outside, false)], ..run.clone() };
            fs::write(&path, serde_json::to_vec(&run).unwrap()).unwrap();
            let why = RunFile::read(&path).unwrap_err();
            assert_eq!(why, format!("names {outside:?}, which is not a file in its folder"));
        }
        run.memreel_run = VERSION + 1;
        fs::write(&path, serde_json::to_vec(&run).unwrap()).unwrap();
        assert!(RunFile::read(&path).unwrap_err().contains("version"));
        fs::write(&path, "{}").unwrap();
        assert!(RunFile::read(&path).unwrap_err().contains("not a run file of memreel record"));
        assert_eq!((runs_in(folder.path()), runs_in(&path)), (vec![path.clone()], vec![path]));
    }
}
