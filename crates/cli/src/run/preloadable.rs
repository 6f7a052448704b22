//! Determines whether the loader preloads a library into a program.

#![forbid(unsafe_code)]

use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use memreel_snapshot::place::open_plain;
use object::{
    Endianness,
    elf::{DT_SONAME, EM_AARCH64, EM_X86_64, FileHeader64, Machine, PT_INTERP},
    read::{
        ReadCache,
        elf::{Dyn, FileHeader, ProgramHeader},
    },
};

use crate::text::ShownPath;

/// The machine for which the libraries are that this program has.
const MACHINE: Machine = if cfg!(target_arch = "aarch64") { EM_AARCH64 } else { EM_X86_64 };

/// How often a script may name another script as its interpreter.
const MAX_SCRIPTS: usize = 4;

/// Why a program is not recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unrecorded {
    /// The reason, as a sentence without its end.
    pub(crate) why: String,
    /// Whether its loader would fail with one of memreel's libraries; other loaders ignore it, and that of a child may
    /// not.
    pub(crate) refuses: bool,
}

impl Unrecorded {
    fn ignores(why: String) -> Unrecorded {
        Unrecorded { why, refuses: false }
    }
}

/// Returns why nothing can be preloaded into a program; `None` if it can, and for a file that is not a program.
pub(crate) fn why_not(program: &OsStr) -> Option<Unrecorded> {
    let mut path = in_path(program)?;
    for _ in 0..MAX_SCRIPTS {
        if let Some(why) = of_owner(&path) {
            return Some(Unrecorded::ignores(why));
        }
        let start = start_of(&path)?;
        match start.strip_prefix(b"#!") {
            None => return of_binary(&path),
            Some(line) => path = interpreter(line)?,
        }
    }
    None
}

/// The file that a shell would run.
pub(crate) fn in_path(program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 || path.is_absolute() {
        return path.is_file().then(|| path.to_owned());
    }
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(path)).find(|path| path.is_file())
}

fn start_of(path: &Path) -> Option<Vec<u8>> {
    let mut start = Vec::new();
    File::open(path).ok()?.take(256).read_to_end(&mut start).ok()?;
    Some(start)
}

fn interpreter(line: &[u8]) -> Option<PathBuf> {
    let line = line.split(|byte| *byte == b'\n').next()?;
    let text = std::str::from_utf8(line).ok()?;
    let mut words = text.split_whitespace();
    let first = words.next()?;
    // `#!/usr/bin/env python3` runs what comes next.
    let is_env = Path::new(first).file_name().is_some_and(|name| name == "env");
    let next = words.find(|word| !word.starts_with('-') && !word.contains('=')).filter(|_| is_env);
    in_path(OsStr::new(next.unwrap_or(first)))
}

/// A program with its own rights: the loader ignores preloaded libraries.
fn of_owner(path: &Path) -> Option<String> {
    let found = fs::metadata(path).ok()?;
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let sets_user = found.mode() & 0o4000 != 0 && found.uid() != user;
    let sets_group = found.mode() & 0o2000 != 0 && found.gid() != group;
    let mut rights = [0_u8; 64];
    let has_rights = user != 0 && rustix::fs::getxattr(path, c"security.capability", &mut rights).is_ok();
    (sets_user || sets_group || has_rights).then(|| {
        format!(
            "{} runs with its own privileges (setuid, setgid or capabilities), so no library can be \
             preloaded",
            ShownPath(&path)
        )
    })
}

/// A program without the loader, or for another machine.
fn of_binary(path: &Path) -> Option<Unrecorded> {
    // What is looked at is read: a program may be of any size.
    let file = ReadCache::new(open_plain(path).ok()?);
    let file = &file;
    let named = ShownPath(&path);
    let Ok(header) = FileHeader64::<Endianness>::parse(file) else {
        let is_program = start_of(path)?.starts_with(b"\x7fELF");
        return is_program
            .then(|| Unrecorded::ignores(format!("{named} is a program for another architecture")));
    };
    let endian = header.endian().ok()?;
    if header.e_machine(endian) != MACHINE {
        return Some(Unrecorded::ignores(format!("{named} is a program for another architecture")));
    }
    let segments = header.program_headers(endian, file).ok()?;
    let Some(loader) = segments.iter().find(|segment| segment.p_type(endian) == PT_INTERP) else {
        // What runs without a loader and has a library's name is one: the program is among its arguments.
        let parts = segments.iter().find_map(|segment| segment.dynamic(endian, file).ok().flatten());
        if parts.is_some_and(|parts| parts.iter().any(|part| part.d_tag(endian) == DT_SONAME)) {
            return None;
        }
        let why = format!("{named} is statically linked, so no library can be preloaded");
        return Some(Unrecorded::ignores(why));
    };
    let loader = loader.data(endian, file).ok()?;
    let loader = String::from_utf8_lossy(loader.split(|byte| *byte == 0).next()?).into_owned();
    let why = || {
        format!("{named} uses a C library other than glibc ({loader}), and memreel's libraries need glibc")
    };
    (!loader.contains("ld-linux")).then(|| Unrecorded { why: why(), refuses: true })
}
