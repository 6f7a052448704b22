//! What the dynamic loader has in memory, and how often that has changed.
//!
//! Only 64-bit Linux is asked. Elsewhere the list is empty, and
//! `symbolize.rs` leaves names to the `backtrace` crate.

use std::{ops::Range, path::PathBuf};

use super::identity::Identity;

/// How many modules were ever loaded, and how many were unloaded: while both
/// numbers stand still, so does the list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Version {
    pub(super) n_loaded: u64,
    pub(super) n_unloaded: u64,
}

/// A module in memory now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Loaded {
    /// Absolute; without any `/` for what the kernel maps (the vDSO).
    pub(super) path: PathBuf,
    /// What was added to the addresses in its file.
    pub(super) bias: usize,
    /// Its segments in memory, rising.
    pub(super) ranges: Vec<Range<usize>>,
    pub(super) identity: Identity,
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub(super) use linux::{list, version};

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
pub(super) fn version() -> Version {
    Version::default()
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
pub(super) fn list() -> (Version, Vec<Loaded>) {
    (Version::default(), Vec::new())
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod linux {
    use std::{
        ffi::{CStr, OsStr, OsString, c_int, c_void},
        fs,
        ops::Range,
        os::unix::ffi::{OsStrExt, OsStringExt},
        path::{Path, PathBuf},
        slice,
        sync::OnceLock,
    };

    use object::{
        NativeEndian,
        elf::{PF_R, PT_LOAD},
        read::elf::ProgramHeader,
    };

    use super::{Loaded, Version};
    use crate::stack::names::identity::{Header, Identity};

    // The loader's program headers are read as the file's.
    const _: () = assert!(size_of::<Header>() == size_of::<libc::Elf64_Phdr>());
    const _: () = assert!(align_of::<Header>() <= align_of::<libc::Elf64_Phdr>());

    /// The loader's two counters, from its first entry alone: some 50 ns and
    /// the loader's lock, for as long as it takes.
    pub(in crate::stack) fn version() -> Version {
        let mut version = Version::default();
        each(&mut |info| {
            version = version_of(info);
            false
        });
        version
    }

    /// Every module, in the loader's order.
    pub(in crate::stack) fn list() -> (Version, Vec<Loaded>) {
        let (mut version, mut modules) = (Version::default(), Vec::new());
        each(&mut |info| {
            version = version_of(info);
            modules.push(loaded(info));
            true
        });
        // Files and folders are asked for their names after the loader's lock is back.
        for module in &mut modules {
            name(module);
        }
        (version, modules)
    }

    /// Shows `see` each entry of the loader's list until it says `false`.
    fn each(see: &mut dyn FnMut(&libc::dl_phdr_info) -> bool) {
        type See<'a> = &'a mut dyn FnMut(&libc::dl_phdr_info) -> bool;
        unsafe extern "C" fn call(info: *mut libc::dl_phdr_info, _: usize, see: *mut c_void) -> c_int {
            // SAFETY: `see` is the pointer that `dl_iterate_phdr` is given
            // below, to a `See` that outlives the walk and is used by it alone.
            let see = unsafe { &mut *see.cast::<See<'_>>() };
            // SAFETY: the loader passes an entry that is good for this call.
            // Since glibc 2.4 and musl 1.0 it has the counters.
            let info = unsafe { &*info };
            c_int::from(!see(info))
        }
        let mut see: See<'_> = see;
        // SAFETY: `call` is made for the pointer it gets; see there. The
        // closures above allocate, but call no function of the loader and do not panic.
        unsafe { libc::dl_iterate_phdr(Some(call), (&raw mut see).cast()) };
    }

    fn version_of(info: &libc::dl_phdr_info) -> Version {
        Version { n_loaded: info.dlpi_adds, n_unloaded: info.dlpi_subs }
    }

    fn loaded(info: &libc::dl_phdr_info) -> Loaded {
        let headers = headers(info);
        let bias = info.dlpi_addr as usize;
        let is_load = |header: &&Header| header.p_type(NativeEndian) == PT_LOAD;
        let mut ranges: Vec<_> = headers
            .iter()
            .filter(is_load)
            .map(|header| range(header, bias, header.p_memsz(NativeEndian)))
            .collect();
        ranges.sort_unstable_by_key(|range| range.start);
        let path = if info.dlpi_name.is_null() {
            PathBuf::new()
        } else {
            // SAFETY: a name in the loader's list ends in a zero and lives as long as the entry.
            let name = unsafe { CStr::from_ptr(info.dlpi_name) };
            OsStr::from_bytes(name.to_bytes()).into()
        };
        let identity = Identity::of(headers, |header| in_memory(headers, header, bias));
        Loaded { path, bias, ranges, identity }
    }

    fn headers(info: &libc::dl_phdr_info) -> &[Header] {
        if info.dlpi_phdr.is_null() {
            return &[];
        }
        // SAFETY: the loader keeps `dlpi_phnum` headers there for as long as
        // the module is in its list, which its lock holds still during the
        // call. `Header` has their layout, as asserted above.
        unsafe { slice::from_raw_parts(info.dlpi_phdr.cast::<Header>(), info.dlpi_phnum.into()) }
    }

    fn range(header: &Header, bias: usize, bytes: u64) -> Range<usize> {
        let start = (header.p_vaddr(NativeEndian) as usize).wrapping_add(bias);
        start..start.saturating_add(bytes as usize)
    }

    /// What a header points at, if it lies in a readable segment of the file.
    fn in_memory<'a>(headers: &'a [Header], header: &Header, bias: usize) -> Option<&'a [u8]> {
        let wanted = range(header, bias, header.p_filesz(NativeEndian));
        let holds = |segment: &&Header| {
            let mapped = range(segment, bias, segment.p_filesz(NativeEndian));
            segment.p_type(NativeEndian) == PT_LOAD
                && segment.p_flags(NativeEndian).contains(PF_R)
                && mapped.start <= wanted.start
                && wanted.end <= mapped.end
        };
        headers.iter().find(holds)?;
        // SAFETY: `holds` found it inside a segment that the loader mapped
        // readable from a file, and the loader's lock keeps it there. Notes and
        // the unwind index are never written.
        Some(unsafe { slice::from_raw_parts(wanted.start as *const u8, wanted.len()) })
    }

    /// The loader does not name the program, and names some libraries relative to the folder of `dlopen`.
    fn name(module: &mut Loaded) {
        let bytes = module.path.as_os_str().as_bytes();
        if bytes.is_empty() {
            static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
            module.path = PROGRAM.get_or_init(|| program(module)).clone();
        } else if bytes[0] != b'/' && bytes.contains(&b'/') {
            module.path = std::path::absolute(&module.path).unwrap_or_default();
        }
    }

    /// The program's path. `/proc/self/exe` alone would be the loader's where
    /// a program is started through it by hand.
    fn program(module: &Loaded) -> PathBuf {
        let maps = fs::read("/proc/self/maps").unwrap_or_default();
        let start = module.ranges.first().map_or(0, |range| range.start);
        let mapped = maps.split(|byte| *byte == b'\n').find_map(|line| file_mapped_at(line, start));
        let path = mapped.unwrap_or_else(|| std::env::current_exe().unwrap_or_default());
        // Replaced or deleted since it was started: only this name still reaches it.
        let is_gone = path.as_os_str().as_bytes().ends_with(b" (deleted)") && !path.exists();
        if is_gone { Path::new("/proc/self/exe").into() } else { path }
    }

    /// The file of a line of `/proc/self/maps`, `55d0-55f0 r-xp 0000 fe:01 123   /path`, that begins at or
    /// holds an address.
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
    use super::*;

    #[test]
    fn the_list_has_this_program_and_its_files_say_the_same() {
        let (version, modules) = list();
        assert!(version.n_loaded >= modules.len() as u64);
        let here = list as fn() -> (Version, Vec<Loaded>) as usize;
        let own =
            modules.iter().find(|module| module.ranges.iter().any(|range| range.contains(&here))).unwrap();
        assert_eq!(own.path, std::env::current_exe().unwrap());
        let files: Vec<_> = modules.iter().filter(|module| module.path.is_absolute()).collect();
        assert!(files.len() >= 2, "{modules:?}");
        for module in files {
            let data = std::fs::read(&module.path).unwrap();
            assert_eq!(
                Identity::of_file(&data).as_ref(),
                Some(&module.identity),
                "{}",
                module.path.display()
            );
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
