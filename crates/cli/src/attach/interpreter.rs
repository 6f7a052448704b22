//! The CPython interpreter of a process: its version, and the addresses of its exports.

#![forbid(unsafe_code)]

use std::{
    env,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

use super::{
    elf::Exports,
    target::{Mapping, Target, refused},
};
use crate::{failure::Failure, text::shell_word};

/// The functions of the interpreter that are called through gdb.
const NAMES: [&str; 5] = [
    "Py_AddPendingCall",
    "PyRun_SimpleString",
    "PyGILState_Ensure",
    "Py_MakePendingCalls",
    "PyGILState_Release",
];

/// The oldest version: 3.OLDEST.
const OLDEST: u8 = 9;

/// The first version that has `sys.remote_exec`.
const FIRST_WITH_REMOTE: u8 = 14;

/// The interpreter of a process.
#[derive(Debug)]
pub(super) struct Interpreter {
    /// N of CPython 3.N.
    pub(super) minor: u8,
    exports: Exports,
}

impl Interpreter {
    /// Finds the interpreter in the memory of a process.
    pub(super) fn of(target: &Target) -> Result<Interpreter, Failure> {
        if let Some(mapping) =
            target.mappings.iter().find(|mapping| mapping.name() == "libmemreel_preload.so")
        {
            return Err(recorded(target, mapping));
        }
        let is_named = |mapping: &&Mapping| {
            ["libpython3", "python3"].iter().any(|name| mapping.name().starts_with(name))
        };
        let named = target.mappings.iter().filter(is_named);
        let program =
            target.mappings.iter().find(|mapping| target.identity.program == Path::new(&mapping.path));
        let of = |mapping: &Mapping| Some((mapping.clone(), Exports::of(target, mapping, &NAMES)?));
        let exporting = |(_, exports): &(Mapping, Exports)| exports.address(NAMES[0]).is_some();
        let Some((mapping, exports)) = named.chain(program).filter_map(of).find(exporting) else {
            return Err(Failure::usage(format!(
                "{} is not CPython; `memreel record` records any program from its start",
                target.name()
            )));
        };
        let in_name = version_in(mapping.name());
        let in_file = exports.version.and_then(|version| u8::try_from(version >> 16 & 0xff).ok());
        let in_paths = || target.mappings.iter().find_map(|mapping| version_in(&mapping.path));
        match in_name.or(in_file).or_else(in_paths) {
            Some(minor) if minor >= OLDEST => Ok(Interpreter { minor, exports }),
            Some(minor) => Err(refused(format!(
                "{} is CPython 3.{minor}; memreel attaches to 3.{OLDEST} and later",
                target.name()
            ))),
            None => Err(refused(format!("{}: its CPython version is unknown", target.name()))),
        }
    }

    /// Whether it has `sys.remote_exec`.
    pub(super) fn has_remote(&self) -> bool {
        self.minor >= FIRST_WITH_REMOTE
    }

    pub(super) fn address(&self, name: &str) -> Result<u64, Failure> {
        let missing = || refused(format!("its CPython 3.{} does not export {name}", self.minor));
        self.exports.address(name).ok_or_else(missing)
    }

    /// Finds a program of the same version that may run with the caller's rights, such as root's: one in `PATH`, or
    /// that of the process, if only root and the caller can change it. A process in a container provides none, whoever
    /// its owner appears to be, and none is suitable for it: an interpreter expects the files of a process where its
    /// own are.
    pub(super) fn program(&self, target: &Target) -> Option<PathBuf> {
        let name = format!("python3.{}", self.minor);
        let is_python = |path: &PathBuf| {
            path.file_name().is_some_and(|found| found.to_string_lossy().starts_with("python"))
        };
        let program = &target.identity.program;
        let beside = program.parent().map(|folder| folder.join(&name));
        let of_target = [Some(program.clone()), beside].into_iter().flatten().filter(is_python);
        let of_target = of_target.filter_map(|path| trusted(&path));
        target.is_here.then(|| of_target.chain(in_path(&name)).next()).flatten()
    }
}

/// Returns the programs with this name in `PATH` that only root and the caller can change.
pub(super) fn in_path(name: &str) -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    folders.into_iter().filter_map(move |folder| trusted(&folder.join(name)))
}

/// Returns the file that a path leads to, if only root and the caller can change which one it is.
fn trusted(path: &Path) -> Option<PathBuf> {
    let is_owned = |path: &Path| {
        path.metadata()
            .is_ok_and(|found| [0, geteuid().as_raw()].contains(&found.uid()) && found.mode() & 0o022 == 0)
    };
    // Without links: the file that runs later is the one that was checked.
    let path = path.canonicalize().ok()?;
    (path.is_file() && path.ancestors().all(is_owned)).then_some(path)
}

/// Returns N of the first `python3.N` in a text.
fn version_in(text: &str) -> Option<u8> {
    let rest = text.split("python3.").nth(1)?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

/// Returns that a process is under `memreel record`, with what to do.
fn recorded(target: &Target, _library: &Mapping) -> Failure {
    let tapes = target.mappings.iter().filter(|mapping| mapping.name().ends_with(".tape"));
    let how = match tapes.map(|mapping| shell_word(&mapping.path)).next() {
        Some(tape) => format!(
            "`memreel watch {}` shows it, and `memreel recover {tape} -o FILE` writes a snapshot",
            target.process
        ),
        None => format!("`memreel watch {}` shows it", target.process),
    };
    Failure::usage(format!("{} is already recorded by `memreel record`: {how}", target.name()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_program_that_others_can_replace_is_not_trusted() {
        assert!(trusted(Path::new("/bin/sh")).is_some());
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("python3.14");
        std::fs::copy("/bin/sh", &program).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o757)).unwrap();
        assert_eq!([trusted(&program), trusted(&folder.path().join("python3.15"))], [None, None]);
        let link = folder.path().join("python3.16");
        std::os::unix::fs::symlink("/bin/sh", &link).unwrap();
        assert_eq!(trusted(&link), Path::new("/bin/sh").canonicalize().ok(), "what is run is not the link");
    }

    #[test]
    fn versions_are_in_names() {
        for (text, minor) in [
            ("libpython3.10.so.1.0", Some(10)),
            ("python3.9", Some(9)),
            ("/usr/lib/python3.13/lib-dynload/a.so", Some(13)),
            ("libpython3.14td.so", Some(14)),
            ("python3", None),
            ("python3.x", None),
            ("libpython3.999.so", None),
        ] {
            assert_eq!(version_in(text), minor, "{text}");
        }
    }
}
