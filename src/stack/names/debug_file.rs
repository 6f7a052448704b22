//! Opens the files that a debugger also opens: separate debug files, supplements, packages of split units.
//!
//! The locations are those in gdb's manual, "Debugging Information in Separate Files"; debuginfod is not used, because
//! an export does not use the network.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use elsa::FrozenVec;
use memmap2::Mmap;
use object::Object;

use crate::process::open_plain;

/// The folder into which distributions install debug files.
const DEBUG_FOLDER: &str = "/usr/lib/debug";

/// Files and unpacked sections, kept in place while they are read.
#[derive(Default)]
pub(super) struct Arena {
    files: FrozenVec<Box<Mmap>>,
    buffers: FrozenVec<Vec<u8>>,
}

impl Arena {
    /// Maps a file; none if it cannot be read or is not a plain file (a path in a broken file could name a device or a
    /// pipe).
    ///
    /// If another process truncates the file while it is read, this process ends, as it would if the file were a
    /// library in use.
    pub(super) fn map(&self, path: &Path) -> Option<&[u8]> {
        let file = open_plain(path).ok()?;
        if file.metadata().ok()?.len() == 0 {
            return None;
        }
        // SAFETY: the mapping is private and only read as bytes; they may change
        // under the reader, as described above, and each is checked where it is used.
        let map = unsafe { Mmap::map(&file) }.ok()?;
        Some(self.files.push_get(Box::new(map)))
    }

    pub(super) fn keep(&self, buffer: Vec<u8>) -> &[u8] {
        self.buffers.push_get(buffer)
    }
}

/// Returns the separate debug file of a module's file.
pub(super) fn separate<'a>(
    path: &Path,
    file: &object::File<'a>,
    arena: &'a Arena,
) -> Option<(PathBuf, object::File<'a>)> {
    by_build_id(file, arena).or_else(|| by_link(path, file, arena))
}

fn by_build_id<'a>(file: &object::File<'a>, arena: &'a Arena) -> Option<(PathBuf, object::File<'a>)> {
    let id = file.build_id().ok()??;
    let path = build_id_path(id)?;
    let debug = parse(arena.map(&path)?)?;
    (debug.build_id().ok()? == Some(id)).then_some((path, debug))
}

/// Returns the file next to it that `.gnu_debuglink` names. It must be from the same build: by its build id if both
/// files have one, otherwise by the checksum of the link.
fn by_link<'a>(
    path: &Path,
    file: &object::File<'a>,
    arena: &'a Arena,
) -> Option<(PathBuf, object::File<'a>)> {
    let (name, checksum) = file.gnu_debuglink().ok()??;
    let name = path_of(name);
    let path = fs::canonicalize(path).ok()?;
    let folder = path.parent()?;
    let installed = Path::new(DEBUG_FOLDER).join(folder.strip_prefix("/").ok()?);
    let places = [folder.to_path_buf(), folder.join(".debug"), installed].map(|place| place.join(name));
    places.into_iter().filter(|place| *place != path).find_map(|place| {
        let data = arena.map(&place)?;
        let debug = parse(data)?;
        let is_same = match (file.build_id().ok()?, debug.build_id().ok()?) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => crc32fast::hash(data) == checksum,
        };
        is_same.then_some((place, debug))
    })
}

/// Returns the file to which `dwz` moved what several debug files have in common.
pub(super) fn supplement<'a>(
    path: &Path,
    debug: &object::File<'a>,
    arena: &'a Arena,
) -> Option<object::File<'a>> {
    let (name, id) = debug.gnu_debugaltlink().ok()??;
    let beside = fs::canonicalize(path).ok()?.parent()?.join(path_of(name));
    [Some(beside), build_id_path(id)].into_iter().flatten().find_map(|place| {
        let file = parse(arena.map(&place)?)?;
        (file.build_id().ok()? == Some(id)).then_some(file)
    })
}

/// Returns the package of a program's split units: the program's path with `.dwp` appended.
pub(super) fn package<'a>(path: &Path, arena: &'a Arena) -> Option<object::File<'a>> {
    let mut name = path.as_os_str().to_owned();
    name.push(".dwp");
    parse(arena.map(Path::new(&name))?)
}

/// Returns an object file with this machine's byte order.
pub(super) fn parse(data: &[u8]) -> Option<object::File<'_>> {
    let file = object::File::parse(data).ok()?;
    (file.is_little_endian() == cfg!(target_endian = "little")).then_some(file)
}

fn build_id_path(id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let mut path = format!("{DEBUG_FOLDER}/.build-id/{first:02x}/");
    for byte in rest {
        let _ = write!(path, "{byte:02x}");
    }
    path.push_str(".debug");
    Some(path.into())
}

/// Returns a path in a binary.
#[cfg(unix)]
pub(super) fn path_of(bytes: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt;

    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

/// Returns a path in a binary; empty if it cannot be a path on this system.
#[cfg(not(unix))]
pub(super) fn path_of(bytes: &[u8]) -> &Path {
    Path::new(str::from_utf8(bytes).unwrap_or_default())
}
