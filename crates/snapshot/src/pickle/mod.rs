//! Snapshots as pickle files: [`save`] writes the whole file or nothing, [`load`] runs no code.
//!
//! ```
//! use memreel::{pickle, snapshot::Snapshot};
//!
//! let bytes = pickle::to_vec(&Snapshot::default());
//! let snapshot = pickle::from_slice(&bytes)?;
//! assert_eq!(snapshot.n_events(), 0);
//! # Ok::<(), memreel::Error>(())
//! ```
//!
//! A pickle is a program for a small stack machine. The machine here runs only
//! opcodes that make plain data, so a hostile file is an error with the offset
//! of a byte; memory stays in proportion to the file. [`load`] reads the files of
//! PyTorch 2.0 to 2.15, by Python or by its C++ writer. [`save`] writes protocol 4,
//! with only the opcodes that every viewer supports.

mod opcode;
mod file;
mod page;
mod read;
mod write;

use std::{fs::File, io, path::Path};

use crate::{
    model::{Snapshot, SnapshotSource},
    place::{self, Durability, Place, Target},
    words::{Error, Finding, Result},
};

use read::Means;
pub use read::{LazySnapshot, Reading};

const CANNOT_SAVE: &str = "cannot save the snapshot, and an existing file is untouched; check that the \
                           folder exists, is writable and has space, or save elsewhere:";

/// The result of reading a file: its snapshot, and the invariants that its bytes break.
#[derive(Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The snapshot, or why the file is not one.
    pub snapshot: Result<Snapshot>,
    /// The invariants 3 to 6, and of 7 the size of the file, that the bytes break (docs/snapshot-format.md 5). At most
    /// 100, plus one that counts the rest.
    pub findings: Vec<Finding>,
}

/// Writes a snapshot to a file, the whole file or nothing.
///
/// The bytes are written to a temporary file in the same folder and flushed to
/// the disk; then the file is renamed. A file of that name keeps its permissions.
///
/// # Errors
/// [`is_io`](crate::words::Error::is_io) if the folder is missing or not
/// writable, the disk is full, or the path is not a file. An earlier file of
/// that name is then untouched.
///
/// # Examples
/// ```
/// use memreel::{pickle, snapshot::Snapshot};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("snapshot.pickle");
/// pickle::save(&Snapshot::default(), &path)?;
/// assert_eq!(pickle::load(&path)?.n_events(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn save(snapshot: &impl SnapshotSource, path: impl AsRef<Path>) -> Result<()> {
    save_as(snapshot, path.as_ref(), Durability::Synced)
}

/// Writes a snapshot to a file as [`save`] does, but does not wait until it is on the disk: if the machine crashes within
/// seconds, the file may be empty. For many small files, which take milliseconds each to flush.
///
/// # Errors
/// The errors of [`save`].
///
/// # Examples
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("snapshot.pickle");
/// use memreel::{pickle, snapshot::Snapshot};
///
/// pickle::save_unsynced(&Snapshot::default(), &path)?;
/// assert_eq!(pickle::load(&path)?.n_events(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn save_unsynced(snapshot: &impl SnapshotSource, path: impl AsRef<Path>) -> Result<()> {
    save_as(snapshot, path.as_ref(), Durability::Unsynced)
}

fn save_as(snapshot: &impl SnapshotSource, path: &Path, durability: Durability) -> Result<()> {
    let save = |place: Place| {
        place::replace(&place, (durability, Target::FileOnly), |file| write_file(snapshot, file))
    };
    Place::of(path).and_then(save).map_err(|error| Error::io(CANNOT_SAVE, path, error))
}

/// Writes any file as [`save`] writes a snapshot: under a temporary name, the whole file or nothing. A pipe or a device is
/// written into.
///
/// In a folder that other users may write into, a link is followed only if its owner is the caller or the owner of the
/// folder: another may have put it there.
///
/// # Errors
/// The errors of the system or of `fill`. An earlier file of that name is then unchanged.
///
/// # Examples
/// ```
/// use std::io::Write;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("report.md");
/// memreel::pickle::replace(&path, |file| file.write_all(b"# Report"))?;
/// assert_eq!(std::fs::read(&path)?, b"# Report");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn replace(path: impl AsRef<Path>, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    place::replace(&Place::of(path.as_ref())?, (Durability::Unsynced, Target::Anything), fill)
}

/// Removes the file that [`replace`] would replace, if there is one: the same links are followed, and no others. A
/// folder, a pipe or a device remains.
///
/// # Errors
/// The system's errors, and [`io::ErrorKind::PermissionDenied`] for a link that [`replace`] does not follow.
///
/// # Examples
/// ```
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("report.md");
/// memreel::pickle::remove(&path)?;
/// std::fs::write(&path, "# Report")?;
/// memreel::pickle::remove(&path)?;
/// assert!(!path.exists());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn remove(path: impl AsRef<Path>) -> io::Result<()> {
    Place::of(path.as_ref())?.remove()
}

/// Reads a snapshot from a file, which may also be a page of PyTorch's `trace_plot` or `segment_plot`.
///
/// Another program may truncate or overwrite the file at any time: up to 16 MiB is read into memory before the first
/// byte is decoded, and a longer file is copied first, as [`open`] does. Of it, 48 bytes for each event stay in memory.
///
/// # Errors
/// [`is_io`](crate::words::Error::is_io) if the file cannot be read, or changes while it is read;
/// [`is_malformed`](crate::words::Error::is_malformed) with the offset of a
/// byte if the file is not a snapshot; a dictionary of anything else is not.
///
/// # Examples
/// ```
/// let checkpoint = b"\x80\x04}\x8c\x05epochK\x03s.";
/// let error = memreel::pickle::from_slice(checkpoint).unwrap_err();
/// assert!(error.to_string().starts_with("not a memory snapshot: neither segments nor device_traces"));
/// ```
pub fn load(path: impl AsRef<Path>) -> Result<Snapshot> {
    load_with(path.as_ref(), None)
}

/// Reads a snapshot from a file, and calls `watch` after each 64 KiB of it. Otherwise like [`load`].
///
/// # Errors
/// The errors of [`load`].
///
/// # Examples
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("snapshot.pickle");
/// # memreel::pickle::save(&memreel::Snapshot::default(), &path)?;
/// use memreel::pickle;
///
/// let snapshot = pickle::load_watched(&path, &|reading| {
///     println!("{} of {} bytes, {} events", reading.read_bytes, reading.n_bytes, reading.entries.len());
/// })?;
/// assert_eq!(snapshot.n_events(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn load_watched(path: impl AsRef<Path>, watch: &dyn Fn(Reading<'_>)) -> Result<Snapshot> {
    load_with(path.as_ref(), Some(watch))
}

fn load_with(path: &Path, watch: Option<&dyn Fn(Reading<'_>)>) -> Result<Snapshot> {
    let mut source = file::Source::open(path)?;
    match refusal(&mut source)? {
        Some(error) => Err(error),
        None => {
            let bytes = unwrapped(source.read_piecemeal()?)?;
            read::read(&bytes, Means { file: Some(&bytes), watch }).0
        }
    }
}

/// Returns why a file is rejected before it is copied: it is too long, or its first byte cannot start a pickle.
fn refusal(source: &mut file::Source<'_>) -> Result<Option<Error>> {
    let head = source.head()?;
    // Protocols below 2 begin with a letter or a bracket, the others with PROTO.
    let is_odd = |first: &u8| *first != opcode::PROTO && !first.is_ascii_graphic();
    let is_foreign = head.first().is_some_and(is_odd) && !page::is_page(&head);
    let foreign = if is_foreign { read::read(&head, Means::default()).0.err() } else { None };
    Ok(read::refusal(source.n_bytes()).or(foreign))
}

/// Returns the pickle in a file: the file itself, or the one in a page.
fn unwrapped(bytes: file::Bytes) -> Result<file::Bytes> {
    Ok(page::pickle_in(&bytes)?.map_or(bytes, file::Bytes::Read))
}

/// Writes a snapshot's bytes to a sink, through a small buffer.
///
/// # Errors
/// The first error of the sink, and the error of [`SnapshotSource::check`].
pub fn write(snapshot: &impl SnapshotSource, sink: impl io::Write) -> io::Result<()> {
    write::write(snapshot, sink)
}

/// Writes a snapshot's bytes to a file. Like [`write()`], but a large snapshot is written by a second thread while
/// the next bytes are made.
///
/// # Errors
/// The first error of the file, and the error of [`SnapshotSource::check`].
pub fn write_file(snapshot: &impl SnapshotSource, file: &File) -> io::Result<()> {
    if snapshot.n_events() < WORTH_A_THREAD {
        return write(snapshot, file);
    }
    write::write_ahead(file, |sink| write(snapshot, sink))
}

/// The number of events that takes longer to write than a thread takes to start.
const WORTH_A_THREAD: usize = 10_000;

/// Returns a snapshot's bytes.
///
/// # Panics
/// If a part of the snapshot cannot be read ([`SnapshotSource::check`]), because its file was changed while open.
#[must_use]
pub fn to_vec(snapshot: &impl SnapshotSource) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(snapshot, &mut bytes).expect("a vector takes every byte, and nothing is missing");
    bytes
}

/// Reads a snapshot from bytes; bytes after its STOP opcode are ignored.
///
/// # Errors
/// [`is_malformed`](crate::words::Error::is_malformed) with the offset of a byte, if the bytes are not a snapshot.
///
/// # Examples
/// A pickle that would run code is refused at that opcode:
/// ```
/// let error = memreel::pickle::from_slice(b"\x80\x04cos\nsystem\n.").unwrap_err();
/// assert_eq!(error.offset(), Some(2));
/// assert!(error.to_string().contains("GLOBAL would run code"));
/// ```
pub fn from_slice(bytes: &[u8]) -> Result<Snapshot> {
    let page = page::pickle_in(bytes)?;
    read::read(page.as_deref().unwrap_or(bytes), Means::default()).0
}

/// Returns the pickle in bytes: the bytes themselves, or the base64 in a page of PyTorch's `trace_plot`. The functions
/// that read files, and [`from_slice`], do this themselves.
///
/// # Errors
/// [`is_malformed`](crate::words::Error::is_malformed) if the page holds no snapshot, or a damaged one.
///
/// # Examples
/// ```
/// let page = b"<script>const local_files = [{\"name\": \"snapshot.pickle\", \"base64\": \"gAR9Lg==\"}]</script>";
/// assert_eq!(memreel::pickle::out_of_page(page.to_vec())?, b"\x80\x04}.");
/// # Ok::<(), memreel::Error>(())
/// ```
pub fn out_of_page(bytes: Vec<u8>) -> Result<Vec<u8>> {
    Ok(page::pickle_in(&bytes)?.unwrap_or(bytes))
}

/// Returns what a text of another format is, and what to do, by its first bytes: a pointer of Git LFS, PyTorch's
/// `memory_summary()` or `memory_stats()`, or RMM's log. `None` for any other bytes.
///
/// ```
/// let what = memreel::pickle::named_text(b"version https://git-lfs.github.com/spec/v1\n").unwrap();
/// assert!(what.ends_with("git lfs pull"));
/// ```
#[must_use]
pub fn named_text(bytes: &[u8]) -> Option<&'static str> {
    read::named_text(bytes)
}

/// Reads a snapshot without the events of its devices, which remain in the bytes.
///
/// # Errors
/// The errors of [`from_slice`].
pub fn lazy(bytes: &[u8]) -> Result<LazySnapshot<'_>> {
    LazySnapshot::read(bytes, None)
}

/// Opens a snapshot file for [`OpenFile::lazy`].
///
/// Other programs may truncate or overwrite the file at any time. A file of up to 16 MiB is therefore read into
/// memory, and a longer one is copied to a file without a name in the folder for temporary files (`TMPDIR`), where it
/// takes no memory; its space is free again when the returned value is dropped. If that folder has no space, a longer
/// file is read into memory too. The copy costs about half a millisecond for each megabyte, like the reading of
/// [`load`]; `memreel slim --depth 8` takes 0.7 s of processor time for a file of 159 MB, 0.1 s of it for the copy.
///
/// # Errors
/// [`is_io`](crate::words::Error::is_io) if the file cannot be read, or changes while it is read.
/// [`is_malformed`](crate::words::Error::is_malformed) if it has 1 TiB or more.
///
/// # Examples
/// A file of any size is rewritten in little memory:
/// ```
/// # use memreel::snapshot::Snapshot;
/// use memreel::pickle;
///
/// # let folder = tempfile::tempdir()?;
/// # let [path, other] = ["a.pickle", "b.pickle"].map(|name| folder.path().join(name));
/// # pickle::save(&Snapshot::default(), &path)?;
/// let file = pickle::open(&path)?;
/// pickle::save(&file.lazy()?, &other)?;
/// # assert_eq!(std::fs::read(path)?, std::fs::read(other)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open(path: impl AsRef<Path>) -> Result<OpenFile> {
    let mut source = file::Source::open(path.as_ref())?;
    match refusal(&mut source)? {
        Some(error) => Err(error),
        None => Ok(OpenFile(unwrapped(source.read_piecemeal()?)?)),
    }
}

/// The bytes of a snapshot file, in memory or in a copy of the file.
#[derive(Debug)]
pub struct OpenFile(file::Bytes);

impl OpenFile {
    /// Reads the snapshot without the events of its devices, which remain in the file.
    ///
    /// # Errors
    /// [`is_malformed`](crate::words::Error::is_malformed) with the offset of a byte if the file is not a snapshot.
    pub fn lazy(&self) -> Result<LazySnapshot<'_>> {
        LazySnapshot::read(&self.0, Some(&self.0))
    }
}

/// Reads a file, and reports which invariants its bytes break.
///
/// # Errors
/// [`is_io`](crate::words::Error::is_io) if the file cannot be read, or changes while it is read. A file that
/// is not a snapshot is not an error here, but a finding.
pub fn inspect(path: impl AsRef<Path>) -> Result<Inspection> {
    let mut source = file::Source::open(path.as_ref())?;
    match refusal(&mut source)? {
        Some(error) => Ok(Inspection::refused(error, source.n_bytes())),
        None => Ok(inspect_slice(&source.read()?)),
    }
}

/// Reads bytes, and reports which invariants they break.
#[must_use]
pub fn inspect_slice(bytes: &[u8]) -> Inspection {
    match page::pickle_in(bytes) {
        Ok(page) => {
            let (snapshot, findings) = read::read(page.as_deref().unwrap_or(bytes), Means::default());
            Inspection { snapshot, findings }
        }
        Err(error) => Inspection::refused(error, bytes.len() as u64),
    }
}

impl Inspection {
    /// Returns the result for a file that is rejected unread.
    fn refused(error: Error, n_bytes: u64) -> Inspection {
        let (snapshot, findings) = read::refused(error, n_bytes);
        Inspection { snapshot, findings }
    }
}
