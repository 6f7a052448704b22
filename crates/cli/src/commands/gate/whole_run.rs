//! Gates runs of several processes: which of their files are compared, and what was not recorded.

#![forbid(unsafe_code)]

use std::{io::Write, path::PathBuf, slice};

use serde_json::json;

use super::junit::Gated;
use crate::{
    exit::Exit,
    failure::Failure,
    input::{
        Opener,
        each::{self, each_device_of},
        files::{NamedFiles, named},
        name,
        run_file::{RunFile, runs_in},
    },
    options::Input,
    text::{Page, clean, count, print_line, print_wrapped},
};

/// A run that is compared as a whole.
pub(super) struct Run {
    path: PathBuf,
    file: RunFile,
    helpers: Vec<PathBuf>,
}

/// What the arguments name.
pub(super) struct FilesAndRuns {
    /// The files of all but the helpers of runs.
    pub(super) files: NamedFiles,
    pub(super) runs: Vec<Run>,
}

impl FilesAndRuns {
    /// # Errors
    /// The file of a run cannot be read, or a pattern is not one.
    pub(super) fn of(paths: &[PathBuf], opener: &Opener) -> Result<FilesAndRuns, Failure> {
        let mut asked = FilesAndRuns { files: NamedFiles::default(), runs: Vec::new() };
        for path in paths {
            let runs = runs_in(path).into_iter().map(Run::read).collect::<Result<Vec<Run>, Failure>>()?;
            // The snapshots in a folder are what is there, and those of its runs, of which some may be missing.
            let mut found = NamedFiles::default();
            if runs.is_empty() || path.is_dir() {
                found = named(slice::from_ref(path), opener)?;
            }
            for file in runs.iter().flat_map(Run::main_files) {
                if !found.files.contains(&file) {
                    found.files.push(file);
                }
            }
            asked.files.files.extend(found.files);
            asked.files.broken.extend(found.broken);
            asked.runs.extend(runs);
        }
        Ok(asked)
    }
}

impl Run {
    fn read(path: PathBuf) -> Result<Run, Failure> {
        let file = RunFile::read(&path)
            .map_err(|why| Failure::Message(Exit::Unreadable, format!("{}: {why}", name(&path))))?;
        let helpers = file.processes.iter().filter(|of| of.is_helper).map(|of| of.path(&path)).collect();
        Ok(Run { path, file, helpers })
    }

    fn main_files(&self) -> Vec<PathBuf> {
        self.file.processes.iter().filter(|of| !of.is_helper).map(|of| of.path(&self.path)).collect()
    }
}

impl Run {
    /// Compares the helpers by `check`, printing those that fail, and examines what was not recorded. Returns what
    /// failed in the run.
    pub(super) fn check(
        &self,
        input: &Input,
        opener: &Opener,
        allows_unrecorded: bool,
        mut check: impl FnMut(&each::DeviceOfFile<'_>, &mut Page) -> Result<Exit, Failure>,
        out: &mut Page,
    ) -> Result<(Exit, Vec<Gated>), Failure> {
        let (mut exit, mut n_failed) = (Exit::Fine, 0);
        for helper in &self.helpers {
            let of_one = NamedFiles { files: vec![helper.clone()], broken: Vec::new() };
            let mut text = out.part();
            if !input.json {
                writeln!(text, "\n{}", clean(&name(helper)))?;
            }
            let found = each_device_of(of_one, input, opener, &mut text, &mut check)?;
            exit = exit.max(found);
            if found != Exit::Fine || input.json {
                n_failed += usize::from(found != Exit::Fine);
                out.write_all(&text.into_bytes())?;
            }
        }
        let failures = self.unrecorded(allows_unrecorded);
        let place = name(&self.path);
        if input.json {
            let answer = json!({"is_passed": failures.is_empty(), "checks": [], "warnings": failures});
            print_line(&place, None, &answer, out)?;
        } else {
            writeln!(out, "\n{}", clean(&place))?;
            for why in &failures {
                print_wrapped(&format!("FAILED  {why}"), 8, out)?;
            }
            if failures.is_empty() {
                writeln!(out, "ok      {}", self.what(n_failed))?;
            }
        }
        let failed: Vec<Gated> =
            failures.into_iter().map(|why| Gated::of_files(&place, "recorded", why)).collect();
        Ok((if failed.is_empty() { exit } else { exit.max(Exit::GateFailed) }, failed))
    }

    /// Returns how many snapshots the run has.
    fn what(&self, n_failed: usize) -> String {
        let all = count(self.file.processes.len(), "snapshot");
        let helpers = match self.helpers.len() {
            0 => String::new(),
            n => format!(", {n} of them helpers"),
        };
        let failed = if n_failed > 0 { format!("; {n_failed} of the helpers failed") } else { String::new() };
        format!("recorded: {all} of the run{helpers}{failed}")
    }

    /// Returns why the run was not measured, or not all of it.
    fn unrecorded(&self, allows_unrecorded: bool) -> Vec<String> {
        let run = &self.file;
        let nothing = run.processes.is_empty().then(|| "no processes of the run were recorded".to_owned());
        let groups = run.not_recorded.iter().filter(|group| !group.is_minor).map(ToString::to_string);
        let missing = groups.chain(run.failures.iter().cloned()).filter(|_| !allows_unrecorded);
        let missing = missing.map(|why| format!("{why} (--allow-unrecorded checks what was recorded)"));
        nothing.into_iter().chain(missing).map(|why| clean(&why).into_owned()).collect()
    }
}
