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
//! A pickle is a program for a small stack machine. The machine here has the
//! opcodes that make plain data and no others, so a hostile file gives an
//! error with the byte's offset; its memory stays in proportion to the file.
//! Read is what PyTorch 2.0 to 2.15 writes, by Python or by its C++ writer.
//! Written is protocol 4 in the few opcodes that every viewer knows.

mod opcode;
mod file;
mod read;
mod write;

use std::{fs::File, io, path::Path};

use crate::{
    error::Result,
    finding::Finding,
    snapshot::{Snapshot, SnapshotSource},
};

pub use read::LazySnapshot;

/// What a file holds, and what is wrong with its bytes.
#[derive(Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The snapshot, or why there is none.
    pub snapshot: Result<Snapshot>,
    /// The invariants 3 to 6, and 7 as far as the file's size goes, that the
    /// bytes break (snapshot-format.md 5). A hundred at most; the last one
    /// then counts the rest.
    pub findings: Vec<Finding>,
}

/// Writes a snapshot to a file, the whole file or nothing.
///
/// The bytes go to a temporary file in the same folder, to the disk, and then
/// to their name. A file of that name keeps its permissions.
///
/// # Errors
/// [`is_io`](crate::error::Error::is_io) if the folder is missing or not
/// writable, the disk is full, or the path is something else than a file. An
/// earlier file of that name is then untouched.
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
    file::replace(path.as_ref(), |file| write_file(snapshot, file))
}

/// Reads a snapshot from a file, which must not be changed meanwhile.
///
/// # Errors
/// [`is_io`](crate::error::Error::is_io) if the file cannot be read,
/// [`is_malformed`](crate::error::Error::is_malformed) with the byte's offset
/// if it is no snapshot, a dictionary of something else included.
///
/// # Examples
/// ```
/// let checkpoint = b"\x80\x04}\x8c\x05epochK\x03s.";
/// let error = memreel::pickle::from_slice(checkpoint).unwrap_err();
/// assert!(error.to_string().starts_with("no memory snapshot: neither segments nor device_traces"));
/// ```
pub fn load(path: impl AsRef<Path>) -> Result<Snapshot> {
    from_slice(&file::bytes(path.as_ref())?)
}

/// Writes a snapshot's bytes, with a small buffer of its own.
///
/// # Errors
/// The first error of the writer, and that of [`SnapshotSource::check`].
pub fn write(snapshot: &impl SnapshotSource, sink: impl io::Write) -> io::Result<()> {
    write::write(snapshot, sink)
}

/// As [`write()`], into a file: of a large snapshot, a thread hands the bytes to the system while the next are made.
///
/// # Errors
/// The first error of the file, and that of [`SnapshotSource::check`].
pub fn write_file(snapshot: &impl SnapshotSource, file: &File) -> io::Result<()> {
    if snapshot.n_events() < WORTH_A_THREAD {
        return write(snapshot, file);
    }
    write::write_ahead(file, |sink| write(snapshot, sink))
}

/// Events that take longer to write than a thread takes to start.
const WORTH_A_THREAD: usize = 10_000;

/// A snapshot's bytes.
///
/// # Panics
/// If not all of it is there to be written ([`SnapshotSource::check`]): a file that was changed while it is open.
#[must_use]
pub fn to_vec(snapshot: &impl SnapshotSource) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(snapshot, &mut bytes).expect("a vector takes every byte, and nothing is missing");
    bytes
}

/// Reads a snapshot from bytes; bytes after its end are ignored.
///
/// # Errors
/// [`is_malformed`](crate::error::Error::is_malformed) with the byte's offset.
///
/// # Examples
/// A pickle that would run a command names it and stops there:
/// ```
/// let error = memreel::pickle::from_slice(b"\x80\x04cos\nsystem\n.").unwrap_err();
/// assert_eq!(error.offset(), Some(2));
/// assert!(error.to_string().contains("GLOBAL would run code"));
/// ```
pub fn from_slice(bytes: &[u8]) -> Result<Snapshot> {
    read::read(bytes).0
}

/// Reads all of a snapshot but its devices' events, which stay in the bytes.
///
/// # Errors
/// As [`from_slice`].
pub fn lazy(bytes: &[u8]) -> Result<LazySnapshot<'_>> {
    LazySnapshot::read(bytes, None)
}

/// Opens a snapshot file for [`OpenFile::lazy`]. It must not be changed as long as it is open.
///
/// # Errors
/// [`is_io`](crate::error::Error::is_io) if the file cannot be read.
///
/// # Examples
/// A file of any size is written anew in little memory:
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
    Ok(OpenFile(file::bytes_piecemeal(path.as_ref())?))
}

/// A snapshot file that is open; mapped into memory if it is large.
#[derive(Debug)]
pub struct OpenFile(file::Bytes);

impl OpenFile {
    /// Reads all of the snapshot but its devices' events.
    ///
    /// # Errors
    /// [`is_malformed`](crate::error::Error::is_malformed) with the byte's offset if it is no snapshot.
    pub fn lazy(&self) -> Result<LazySnapshot<'_>> {
        LazySnapshot::read(&self.0, Some(&self.0))
    }
}

/// Reads a file, and says what is wrong with its bytes.
///
/// # Errors
/// [`is_io`](crate::error::Error::is_io) if the file cannot be read. One that
/// is no snapshot is no error here: it gives a finding.
pub fn inspect(path: impl AsRef<Path>) -> Result<Inspection> {
    Ok(inspect_slice(&file::bytes(path.as_ref())?))
}

/// Reads bytes, and says what is wrong with them.
#[must_use]
pub fn inspect_slice(bytes: &[u8]) -> Inspection {
    let (snapshot, findings) = read::read(bytes);
    Inspection { snapshot, findings }
}
