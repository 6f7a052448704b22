//! A remembered module: its file, its addresses and its build.
#![forbid(unsafe_code)]

use std::{ops::Range, path::PathBuf};

use super::fingerprint::Fingerprint;
use crate::tape::ModuleNote;

/// One build of a program or library at one address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::stack) struct Module {
    /// The addresses in memory minus those in the file. First, because it decides most comparisons of modules.
    pub(in crate::stack) bias: usize,
    /// The absolute path; a name without `/` for modules that the kernel maps (the vDSO).
    pub(in crate::stack) path: PathBuf,
    /// The segments in memory, by address.
    pub(in crate::stack) ranges: Vec<Range<usize>>,
    pub(in crate::stack) fingerprint: Fingerprint,
}

impl Module {
    /// Returns the module as a note for a tape's file.
    pub(super) fn to_note(&self) -> ModuleNote {
        ModuleNote {
            path: self.path.as_os_str().as_encoded_bytes().to_vec(),
            bias: self.bias as u64,
            ranges: self.ranges.iter().map(|range| (range.start as u64, range.end as u64)).collect(),
            build: self.fingerprint.bits(),
        }
    }

    /// Returns the module of a note.
    #[allow(clippy::cast_possible_truncation)] // A tape is read on the kind of machine that wrote it.
    pub(super) fn of_note(note: &ModuleNote) -> Module {
        let ModuleNote { path, bias, ranges, build } = note;
        Module {
            bias: *bias as usize,
            path: String::from_utf8_lossy(path).into_owned().into(),
            ranges: ranges.iter().map(|(from, to)| *from as usize..*to as usize).collect(),
            fingerprint: Fingerprint::of_number(*build),
        }
    }
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub(in crate::stack) use linux::list;

/// Returns every loaded module, with the version of the list.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
pub(in crate::stack) fn list() -> (super::loader::Version, Vec<Module>) {
    (super::loader::Version::default(), Vec::new())
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod linux {
    use std::{
        ffi::{OsStr, OsString},
        fs,
        ops::{ControlFlow, Range},
        os::unix::ffi::{OsStrExt, OsStringExt},
        path::{Path, PathBuf},
    };

    use once_cell::race::OnceBox;

    use super::{
        super::loader::{self, Entry, Version},
        Module,
    };

    /// Returns every loaded module, in the loader's order, with the version of the list; none if the loader cannot be
    /// called now.
    pub(in crate::stack) fn list() -> (Version, Vec<Module>) {
        let (mut version, mut modules) = (Version::default(), Vec::new());
        loader::each(&mut |entry| {
            version = entry.version;
            modules.push(module(entry));
            ControlFlow::Continue(())
        });
        // The names of files and folders are read after the loader's lock is released.
        for module in &mut modules {
            module.path = absolute(module);
        }
        (version, modules)
    }

    fn module(entry: &Entry<'_>) -> Module {
        let mut ranges: Vec<Range<usize>> = entry.mapping.segments().collect();
        ranges.sort_unstable_by_key(|range| range.start);
        Module {
            path: OsStr::from_bytes(entry.name().to_bytes()).into(),
            bias: entry.mapping.bias(),
            ranges,
            fingerprint: entry.mapping.fingerprint(),
        }
    }

    /// Returns the absolute path: the loader does not name the program, and names some libraries relative to the folder
    /// at `dlopen`.
    fn absolute(module: &Module) -> PathBuf {
        // A cell that no thread waits for: in a child of `fork` the thread that fills it may not exist.
        static PROGRAM: OnceBox<PathBuf> = OnceBox::new();
        let bytes = module.path.as_os_str().as_bytes();
        if bytes.is_empty() {
            PROGRAM.get_or_init(|| Box::new(program(module))).clone()
        } else if bytes[0] != b'/' && bytes.contains(&b'/') {
            std::path::absolute(&module.path).unwrap_or_default()
        } else {
            module.path.clone()
        }
    }

    /// Returns the program's path. `/proc/self/exe` is the loader's if the loader was run explicitly with a program to start:
    /// then the kernel names the loader's headers, and the program is searched for in the maps.
    fn program(module: &Module) -> PathBuf {
        let headers = loader::started_headers();
        let is_started = module.ranges.iter().any(|range| range.contains(&headers));
        let mapped = || {
            let maps = fs::read("/proc/self/maps").unwrap_or_default();
            let start = module.ranges.first().map_or(0, |range| range.start);
            maps.split(|byte| *byte == b'\n').find_map(|line| file_mapped_at(line, start))
        };
        let mapped = if is_started { None } else { mapped() };
        let path = mapped.unwrap_or_else(|| std::env::current_exe().unwrap_or_default());
        // Replaced or deleted since the start: only this name still reaches the file.
        let is_gone = path.as_os_str().as_bytes().ends_with(b" (deleted)") && !path.exists();
        if is_gone { Path::new("/proc/self/exe").into() } else { path }
    }

    /// Returns the file in a line of `/proc/self/maps`, `55d0-55f0 r-xp 0000 fe:01 123 /path`, if its addresses contain
    /// `address`.
    pub(super) fn file_mapped_at(line: &[u8], address: usize) -> Option<PathBuf> {
        let slash = line.iter().position(|byte| *byte == b'/')?;
        let range = str::from_utf8(&line[..slash]).ok()?.split(' ').next()?;
        let (start, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        (number(start)?..number(end)?)
            .contains(&address)
            .then(|| OsString::from_vec(line[slash..].to_vec()).into())
    }
}

#[cfg(all(test, target_os = "linux", target_pointer_width = "64"))]
mod tests {
    use super::{super::loader::Version, *};

    #[test]
    fn the_list_has_this_program_and_its_files_agree() {
        let (version, modules) = list();
        assert!(version.n_loaded >= modules.len() as u64);
        let here = list as fn() -> (Version, Vec<Module>) as usize;
        let own =
            modules.iter().find(|module| module.ranges.iter().any(|range| range.contains(&here))).unwrap();
        assert_eq!(own.path, std::env::current_exe().unwrap());
        let files: Vec<_> = modules.iter().filter(|module| module.path.is_absolute()).collect();
        assert!(files.len() >= 2, "{modules:?}");
        for module in files {
            let data = std::fs::read(&module.path).unwrap();
            assert_eq!(Fingerprint::of_file(&data), Some(module.fingerprint), "{}", module.path.display());
        }
    }

    #[test]
    fn a_line_of_the_maps_is_read() {
        let line = b"55d0-55f0 r-xp 00001000 fe:01 1234      /a folder/prog (deleted)";
        assert_eq!(linux::file_mapped_at(line, 0x55ef), Some("/a folder/prog (deleted)".into()));
        assert_eq!(linux::file_mapped_at(line, 0x55f0), None);
        assert_eq!(linux::file_mapped_at(b"55d0-55f0 rw-p 00000000 00:00 0 [heap]", 0x55d0), None);
        assert_eq!(linux::file_mapped_at(b"/", 0), None);
    }
}
