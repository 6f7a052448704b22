//! The names of the files that a run leaves.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use memreel::{integrate, trigger};
use memreel_snapshot::pickle;

use crate::{failure::Failure, input::run_file::ENDING, run::tape_file::TapeFile, text::ShownPath};

/// Returns the name of a program in messages and files.
pub(super) fn short_name(program: &OsStr) -> String {
    let path = Path::new(program);
    path.file_name().unwrap_or(program).to_string_lossy().into_owned()
}

/// What a process's file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Pickle,
    PackedTape,
}

impl Form {
    fn ending(self) -> &'static str {
        match self {
            Form::Pickle => "pickle",
            Form::PackedTape => "tape",
        }
    }
}

/// How a run's snapshots are named.
#[derive(Clone, Debug)]
pub(super) struct Names {
    folder: PathBuf,
    /// The name of the program's own snapshot, if the user chose one.
    own: Option<Own>,
    /// The first part of the other names, with placeholders.
    stem: String,
    /// The program's name.
    program: String,
}

/// A name that the user chose, with placeholders.
#[derive(Clone, Debug)]
struct Own {
    name: String,
    has_rank: bool,
    has_pid: bool,
}

/// The values of a process's placeholders.
struct Facts<'a> {
    rank: &'a str,
    pid: &'a str,
}

impl Names {
    /// # Errors
    /// A usage error for a folder, a path without a name, or an unknown placeholder.
    pub(super) fn new(output: Option<&Path>, program: &OsStr) -> Result<Names, Failure> {
        let program = short_name(program);
        let Some(output) = output else {
            let stem = escaped(&format!("memreel-{program}"));
            return Ok(Names { folder: PathBuf::from("."), own: None, stem, program });
        };
        let name = output.file_name().filter(|_| !output.is_dir()).ok_or_else(|| {
            Failure::usage(format!("-o needs a file name, but {} is a folder", ShownPath(&output)))
        })?;
        // A name that is not UTF-8 has no placeholders.
        let name = name.to_str().map_or_else(|| escaped(&name.to_string_lossy()), str::to_owned);
        let mut names = Names { folder: PathBuf::from("."), own: None, stem: stem_of(&name), program };
        let has = |word| -> Result<bool, Failure> {
            let filled = |value| names.filled(&name, &Facts { rank: "", pid: "" }.with(word, value));
            Ok(filled("1")? != filled("2")?)
        };
        names.own = Some(Own { has_rank: has("rank")?, has_pid: has("pid")?, name });
        if let Some(folder) = output.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            names.folder = names.filled_folder(folder)?;
        }
        Ok(names)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns whether the tapes of heaps are packed, because the user did not name a pickle.
    pub(super) fn are_of_packed_tapes(&self) -> bool {
        self.own.as_ref().is_none_or(|own| Path::new(&own.name).extension().is_some_and(|end| end == "tape"))
    }

    /// Inserts the rank into the name that the user chose, if this command itself is one of several ranks and the name
    /// is the same for all. Returns a line that reports it.
    pub(super) fn tell_ranks_apart(&mut self, rank: Option<u64>, n_ranks: Option<u64>) -> Option<String> {
        let rank = rank.filter(|_| n_ranks != Some(1))?;
        let own = self.own.as_mut().filter(|own| !own.has_rank && !own.has_pid)?;
        let stem = format!("{}-rank{{rank}}", stem_of(&own.name));
        let end = own.name.strip_prefix(&*self.stem).unwrap_or_default();
        *own = Own { name: format!("{stem}{end}"), has_rank: true, has_pid: false };
        self.stem = stem;
        let of = n_ranks.map_or_else(String::new, |n| format!(" of {n}"));
        let name = self.filled(&self.own.as_ref()?.name, &Facts { rank: &rank.to_string(), pid: "" }).ok()?;
        Some(format!(
            "this is rank {rank}{of}, so the snapshot is {}; use {{rank}} in -o to choose where the rank \
             goes",
            ShownPath(&self.folder.strip_prefix(".").unwrap_or(&self.folder).join(name))
        ))
    }

    /// Removes the file that the user has named for the program's snapshot, if there is one, and that of the run: if
    /// the program records nothing, those of an earlier run would be taken for its own.
    pub(super) fn remove_old(&self, rank: Option<u64>) {
        let Some(own) = self.own.as_ref().filter(|own| !own.has_pid) else { return };
        let rank = rank.map_or_else(|| "0".to_owned(), |rank| rank.to_string());
        let Ok(name) = self.filled(&own.name, &Facts { rank: &rank, pid: "" }) else { return };
        // What cannot be removed cannot be replaced either, which is reported when it is written.
        let _ = pickle::remove(self.folder.join(name));
        let _ = pickle::remove(self.of_run("", &rank, ENDING));
    }

    /// Returns the path of the run's file, whose program has this number and this rank; with another `ending`, that of what else
    /// is of the run.
    pub(super) fn of_run(&self, pid: &str, rank: &str, ending: &str) -> PathBuf {
        let stem = self.filled(&self.stem, &Facts { rank, pid }).unwrap_or_default();
        // Without a name of the user's, runs of one program are told apart.
        let number = if self.own.is_some() { String::new() } else { format!("-{pid}") };
        let dot = if ending == ENDING { "." } else { "-" };
        self.folder.join(format!("{stem}{number}{dot}{ending}"))
    }

    /// Returns the path of a process's snapshot, which no other of `taken` has, nor a file that is there: only the one that
    /// the user has named is replaced. The last program of a process has the plain name, and earlier ones a number;
    /// `n_later` programs came after this one.
    pub(super) fn of(
        &self,
        tape: &TapeFile,
        n_later: usize,
        program: u32,
        form: Form,
        taken: &mut BTreeSet<PathBuf>,
    ) -> PathBuf {
        let ending = form.ending();
        let (rank, pid) = (tape.rank.as_deref(), tape.process.to_string());
        let facts = Facts { rank: rank.unwrap_or("0"), pid: &pid };
        // Every template was filled in once.
        let filled = |template: &str| self.filled(template, &facts).unwrap_or_default();
        let own = self.own.as_ref();
        let is_own = tape.process == program;
        let first = match own {
            // As the user wrote it.
            Some(own) if is_own || own.has_pid => {
                let name = PathBuf::from(filled(&own.name));
                let is_of_tape = form == Form::Pickle && self.are_of_packed_tapes();
                let name = if is_of_tape { name.with_extension(ending) } else { name };
                if self.folder == Path::new(".") { name } else { self.folder.join(name) }
            }
            _ => {
                let rank = rank.filter(|_| !own.is_some_and(|own| own.has_rank));
                let rank = rank.map_or_else(String::new, |rank| format!("-rank{rank}"));
                self.folder.join(filled(&format!("{}{rank}-{pid}.{ending}", self.stem)))
            }
        };
        let numbered = (1_u32..).map(|n| {
            let stem = first.file_stem().unwrap_or_default().to_string_lossy();
            first.with_file_name(format!("{stem}-{n}.{ending}"))
        });
        let plain = (n_later == 0).then(|| first.clone());
        let is_named = |path: &PathBuf| is_own && own.is_some() && *path == first;
        let is_free = |path: &PathBuf| !taken.contains(path) && (is_named(path) || !path.exists());
        let path = plain.into_iter().chain(numbered).find(|path| is_free(path)).unwrap_or(first.clone());
        taken.insert(path.clone());
        path
    }

    /// Returns the path of dumps, as a template: every process of the run writes its own.
    ///
    /// # Errors
    /// A usage error for a folder whose path the variable cannot have.
    pub(super) fn of_dumps(&self) -> Result<String, Failure> {
        // The placeholders that each process fills in itself, as characters that no path has.
        const OPEN: [(&str, &str); 2] = [("\u{1}", "{rank}"), ("\u{2}", "{pid}")];
        let here = env::current_dir().map_err(Failure::usage)?;
        let stem = self.filled(&self.stem, &Facts { rank: OPEN[0].0, pid: OPEN[1].0 })?;
        let path = here.join(&self.folder).join(&stem);
        match path.to_str() {
            Some(path) if !path.contains(',') => {
                let open = OPEN.iter().fold(escaped(path), |path, (mark, word)| path.replace(mark, word));
                let missing = OPEN.iter().filter(|(mark, _)| !stem.contains(mark));
                let missing: String = missing.map(|(_, word)| format!("-{word}")).collect();
                Ok(format!("{open}{missing}-{{cause}}-{{n}}.pickle"))
            }
            _ => Err(Failure::usage(format!(
                "dumps cannot be written next to {}: the path has a comma or is not UTF-8; choose another \
                 with -o",
                ShownPath(&path)
            ))),
        }
    }

    fn filled(&self, template: &str, facts: &Facts<'_>) -> Result<String, Failure> {
        let values =
            [("rank", facts.rank), ("pid", facts.pid), ("host", &integrate::host()), ("name", &self.program)];
        Ok(trigger::fill(template, &values)?)
    }

    /// Returns the folder, which all processes of the run share.
    fn filled_folder(&self, folder: &Path) -> Result<PathBuf, Failure> {
        let Some(text) = folder.to_str() else { return Ok(folder.to_owned()) };
        let rank = integrate::rank().unwrap_or(0).to_string();
        let values = [("rank", &*rank), ("host", &integrate::host()), ("name", &self.program)];
        Ok(trigger::fill(text, &values)?.into())
    }
}

impl<'a> Facts<'a> {
    fn with(self, word: &str, value: &'a str) -> Facts<'a> {
        match word {
            "rank" => Facts { rank: value, ..self },
            _ => Facts { pid: value, ..self },
        }
    }
}

/// Returns a text as a template that is the text.
fn escaped(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

fn stem_of(name: &str) -> String {
    Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned()
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
        let mut of =
            |process, rank, n_later| names.of(&tape(process, rank), n_later, 7, Form::Pickle, &mut taken);
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
        let mut of = |process| names.of(&tape(process, None), 0, 7, Form::Pickle, &mut taken);
        assert_eq!((of(7), of(9)), (at("run.pickle"), at("run-9-1.pickle")));
    }

    #[test]
    fn nothing_is_removed_through_a_link_of_another_user() {
        use std::os::unix::fs::{PermissionsExt, lchown, symlink};

        let [shared, own] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        std::fs::set_permissions(shared.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        let (link, old) = (shared.path().join("link"), own.path().join("run.pickle"));
        symlink(own.path(), &link).unwrap();
        std::fs::write(&old, "").unwrap();
        let names = Names::new(Some(&link.join("run.pickle")), OsStr::new("python")).unwrap();
        if lchown(&link, Some(65_534), None).is_ok() {
            names.remove_old(None);
            assert!(old.exists());
        }
    }

    #[test]
    fn without_a_name_the_file_is_named_after_the_program() {
        let names = Names::new(None, OsStr::new("/usr/bin/python3")).unwrap();
        assert_eq!(
            names.of(&tape(7, None), 0, 7, Form::Pickle, &mut BTreeSet::new()),
            Path::new("./memreel-python3-7.pickle")
        );
        let packed = |names: &Names, process| {
            names.of(&tape(process, None), 0, 7, Form::PackedTape, &mut BTreeSet::new())
        };
        assert!(names.are_of_packed_tapes());
        assert_eq!(packed(&names, 7), Path::new("./memreel-python3-7.tape"));
        let named = |output: &str| Names::new(Some(Path::new(output)), OsStr::new("python")).unwrap();
        assert!(!named("a.pickle").are_of_packed_tapes() && named("a.tape").are_of_packed_tapes());
        assert_eq!(
            (packed(&named("a.tape"), 7), packed(&named("a.tape"), 8)),
            ("a.tape".into(), "./a-8.tape".into())
        );
        let pickle = named("a.tape").of(&tape(7, None), 0, 7, Form::Pickle, &mut BTreeSet::new());
        assert_eq!(pickle, Path::new("a.pickle"), "of a GPU");
        assert!(names.of_dumps().unwrap().ends_with("/memreel-python3-{rank}-{pid}-{cause}-{n}.pickle"));
        assert!(Names::new(Some(Path::new("/")), OsStr::new("x")).is_err());
    }

    #[test]
    fn placeholders_are_those_of_each_process() {
        let names = |output: &str| Names::new(Some(Path::new(output)), OsStr::new("/bin/python"));
        let of = |output: &str, process, rank| {
            names(output).unwrap().of(&tape(process, rank), 0, 7, Form::Pickle, &mut BTreeSet::new())
        };
        let host = integrate::host();
        assert_eq!(
            of("{name}-{rank}-{host}.pickle", 7, Some("3")),
            Path::new(&format!("python-3-{host}.pickle"))
        );
        assert_eq!(of("{rank}.pickle", 7, None), Path::new("0.pickle"));
        assert_eq!(of("a-{rank}.pickle", 8, Some("3")), Path::new("./a-3-8.pickle"), "a child");
        assert_eq!(of("a-{pid}.pkl", 8, Some("3")), Path::new("a-8.pkl"), "each process has its own");
        assert_eq!(of("{{a}}.pickle", 8, None), Path::new("./{a}-8.pickle"));
        assert!(names("{rnak}.pickle").is_err() && names("{pid}/run.pickle").is_err());
        let dumps = names("{pid}-a.pickle").unwrap().of_dumps().unwrap();
        assert!(dumps.ends_with("/{pid}-a-{rank}-{cause}-{n}.pickle"), "{dumps}");
    }

    #[test]
    fn one_name_for_many_ranks_gets_the_rank() {
        let apart = |output: &str, rank, n_ranks| {
            let mut names = Names::new(Some(Path::new(output)), OsStr::new("python")).unwrap();
            let line = names.tell_ranks_apart(rank, n_ranks);
            let own = names.of(&tape(7, Some("3")), 0, 7, Form::Pickle, &mut BTreeSet::new());
            (
                line.is_some(),
                own.display().to_string(),
                names.of(&tape(8, Some("3")), 0, 7, Form::Pickle, &mut BTreeSet::new()),
            )
        };
        let (line, own, child) = apart("run.pickle", Some(3), Some(8));
        assert_eq!((line, &*own, &*child), (true, "run-rank3.pickle", Path::new("./run-rank3-8.pickle")));
        assert!(apart("run.pickle", Some(3), None).0, "a launcher that does not say how many");
        for (output, rank, n_ranks) in [
            ("run.pickle", None, None),
            ("run.pickle", Some(0), Some(1)),
            ("{pid}.pickle", Some(3), Some(8)),
            ("{rank}.pickle", Some(3), Some(8)),
        ] {
            assert!(!apart(output, rank, n_ranks).0, "{output} {rank:?} {n_ranks:?}");
        }
    }
}
