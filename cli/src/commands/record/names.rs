//! The names of the files that a run leaves.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use super::folder::TapeFile;
use crate::failure::Failure;

/// Returns the name of a program in messages and files.
pub(super) fn short_name(program: &OsStr) -> String {
    let path = Path::new(program);
    path.file_name().unwrap_or(program).to_string_lossy().into_owned()
}

/// How the snapshots of a run are named.
#[derive(Clone, Debug)]
pub(super) struct Names {
    folder: PathBuf,
    /// The name of the program's own snapshot, if the user has chosen it.
    own: Option<PathBuf>,
    /// The first part of the other names.
    stem: String,
}

impl Names {
    /// # Errors
    /// A usage error for a folder, or a path without a name.
    pub(super) fn new(output: Option<&Path>, program: &OsStr) -> Result<Names, Failure> {
        let Some(output) = output else {
            let stem = format!("memreel-{}", short_name(program));
            return Ok(Names { folder: PathBuf::from("."), own: None, stem });
        };
        let stem = output.file_stem().filter(|_| !output.is_dir()).ok_or_else(|| {
            Failure::usage(format!("-o takes the name of a file, and {} is a folder", output.display()))
        })?;
        let folder = output.parent().filter(|parent| !parent.as_os_str().is_empty());
        Ok(Names {
            folder: folder.unwrap_or(Path::new(".")).to_owned(),
            own: Some(output.to_owned()),
            stem: stem.to_string_lossy().into_owned(),
        })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a process's snapshot, which no other of `taken` has, nor a file that is there: only the one that
    /// the user has named is replaced. The last program of a process has the plain name, and earlier ones a number;
    /// `n_later` programs came after this one.
    pub(super) fn of(
        &self,
        tape: &TapeFile,
        n_later: usize,
        program: u32,
        taken: &mut BTreeSet<PathBuf>,
    ) -> PathBuf {
        let rank = tape.rank.as_ref().map_or_else(String::new, |rank| format!("-rank{rank}"));
        let named = self.folder.join(format!("{}{rank}-{}.pickle", self.stem, tape.process));
        let first = match &self.own {
            Some(own) if tape.process == program => own.clone(),
            _ => named,
        };
        let numbered = (1_u32..).map(|n| {
            let stem = first.file_stem().unwrap_or_default().to_string_lossy();
            first.with_file_name(format!("{stem}-{n}.pickle"))
        });
        let plain = (n_later == 0).then(|| first.clone());
        let is_named = |path: &PathBuf| self.own.as_ref() == Some(path);
        let is_free = |path: &PathBuf| !taken.contains(path) && (is_named(path) || !path.exists());
        let path = plain.into_iter().chain(numbered).find(|path| is_free(path)).unwrap_or(first);
        taken.insert(path.clone());
        path
    }

    /// Returns the path of dumps, as a template: every process of the run writes its own.
    ///
    /// # Errors
    /// A usage error for a folder whose path the variable cannot have.
    pub(super) fn of_dumps(&self) -> Result<String, Failure> {
        let here = env::current_dir().map_err(Failure::usage)?;
        let path = here.join(&self.folder).join(&self.stem);
        match path.to_str() {
            Some(path) if !path.contains(',') => {
                let path = path.replace('{', "{{").replace('}', "}}");
                Ok(format!("{path}-{{rank}}-{{pid}}-{{cause}}-{{n}}.pickle"))
            }
            _ => Err(Failure::usage(format!(
                "dumps cannot be written beside {}: the path has a comma or is not UTF-8; name another with -o",
                path.display()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tape(process: u32, rank: Option<&str>) -> TapeFile {
        TapeFile { process, nth: 0, rank: rank.map(str::to_owned), path: PathBuf::new() }
    }

    #[test]
    fn the_program_has_the_file_that_was_named_and_others_rank_and_process() {
        let names = Names::new(Some(Path::new("out/run.pickle")), OsStr::new("python")).unwrap();
        let mut taken = BTreeSet::new();
        let mut of = |process, rank, n_later| names.of(&tape(process, rank), n_later, 7, &mut taken);
        assert_eq!(of(7, None, 1), Path::new("out/run-1.pickle"), "it ran another program later");
        assert_eq!(of(7, None, 0), Path::new("out/run.pickle"));
        assert_eq!(of(8, Some("3"), 0), Path::new("out/run-rank3-8.pickle"));
        assert_eq!(of(9, None, 2), Path::new("out/run-9-1.pickle"));
        assert_eq!(of(9, None, 1), Path::new("out/run-9-2.pickle"));
        assert_eq!(of(9, None, 0), Path::new("out/run-9.pickle"));
    }

    #[test]
    fn only_the_file_that_was_named_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        ["run.pickle", "run-9.pickle"].iter().for_each(|name| std::fs::write(at(name), "").unwrap());
        let names = Names::new(Some(&at("run.pickle")), OsStr::new("python")).unwrap();
        let mut taken = BTreeSet::new();
        let mut of = |process| names.of(&tape(process, None), 0, 7, &mut taken);
        assert_eq!((of(7), of(9)), (at("run.pickle"), at("run-9-1.pickle")));
    }

    #[test]
    fn without_a_name_the_file_is_named_after_the_program() {
        let names = Names::new(None, OsStr::new("/usr/bin/python3")).unwrap();
        assert_eq!(
            names.of(&tape(7, None), 0, 7, &mut BTreeSet::new()),
            Path::new("./memreel-python3-7.pickle")
        );
        assert!(names.of_dumps().unwrap().ends_with("/memreel-python3-{rank}-{pid}-{cause}-{n}.pickle"));
        assert!(Names::new(Some(Path::new("/")), OsStr::new("x")).is_err());
    }
}
