//! Reads files, which are copied first because they may change.

use std::{
    fs::{File, Metadata},
    io::{self, Read, Seek},
    ops::Deref,
    path::Path,
};

use memmap2::{Mmap, MmapOptions};

use crate::{
    place::open_at_once,
    words::{Error, Result},
};

const CANNOT_LOAD: &str = "cannot read the snapshot; check the path and your permissions:";

const CHANGED: &str = "the file changed while it was being read; retry when it is complete";

/// Up to this length, a file is held in memory where only parts of it are needed at a time.
const MAX_HELD_BYTES: u64 = 16 << 20;

/// The first bytes, which show which other format a file has.
const HEAD_BYTES: u64 = 4096;

/// The bytes of a file, which nothing can change.
#[derive(Debug)]
pub(super) enum Bytes {
    /// A copy in a file without a name.
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl Bytes {
    /// Returns the pages that were read to the kernel; later reads load them again.
    pub(super) fn forget(&self) {
        #[cfg(unix)]
        if let Bytes::Mapped(map) = self {
            // SAFETY: the map is read only, so every page is in the file and is loaded again with the same bytes:
            // nothing else has the file (see `Source::private_copy`). A failure costs memory alone.
            let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Read(bytes) => bytes,
        }
    }
}

/// A file that was opened for reading. Other programs may truncate or change it meanwhile, as PyTorch does when it
/// dumps to the same path again; then reading is an error.
#[derive(Debug)]
pub(super) struct Source<'p> {
    file: File,
    path: &'p Path,
    opened: Metadata,
}

impl<'p> Source<'p> {
    pub(super) fn open(path: &'p Path) -> Result<Source<'p>> {
        let open = || {
            let file = open_at_once(path)?;
            let opened = file.metadata()?;
            if opened.is_file() {
                return Ok(Source { file, path, opened });
            }
            let what = match opened.is_dir() {
                true => "it is a folder; give the path of a snapshot file in it",
                false => "it is a device or a pipe, not a file",
            };
            Err(io::Error::new(io::ErrorKind::InvalidInput, what))
        };
        open().map_err(|error| Error::io(CANNOT_LOAD, path, error))
    }

    pub(super) fn n_bytes(&self) -> u64 {
        self.opened.len()
    }

    /// Returns the first bytes of a file that is copied before it is read; none of a shorter file.
    pub(super) fn head(&mut self) -> Result<Vec<u8>> {
        let mut head = Vec::new();
        if self.n_bytes() > MAX_HELD_BYTES {
            let read = (&self.file).take(HEAD_BYTES).read_to_end(&mut head).and_then(|_| self.file.rewind());
            read.map_err(|error| Error::io(CANNOT_LOAD, self.path, error))?;
        }
        Ok(head)
    }

    /// Returns the whole file in memory.
    pub(super) fn read(mut self) -> Result<Vec<u8>> {
        self.read_quietly().map_err(|error| Error::io(CANNOT_LOAD, self.path, error))
    }

    /// Returns the file so that its pages can be returned to the kernel piece by piece.
    pub(super) fn read_piecemeal(mut self) -> Result<Bytes> {
        let is_small = self.n_bytes() <= MAX_HELD_BYTES;
        let copy = if is_small { None } else { self.private_copy().ok() };
        match copy {
            Some(map) => self.unless_changed(Bytes::Mapped(map)),
            // Without space for a copy, the file is held in memory.
            None => self.read_quietly().map(Bytes::Read),
        }
        .map_err(|error| Error::io(CANNOT_LOAD, self.path, error))
    }

    fn read_quietly(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let n_bytes = usize::try_from(self.n_bytes()).map_err(io::Error::other)?;
        bytes.try_reserve_exact(n_bytes)?;
        self.file.rewind()?;
        (&self.file).take(self.n_bytes()).read_to_end(&mut bytes)?;
        if bytes.len() < n_bytes { Err(io::Error::other(CHANGED)) } else { self.unless_changed(bytes) }
    }

    /// Returns a map of a copy in the folder for temporary files, which the kernel makes.
    fn private_copy(&mut self) -> io::Result<Mmap> {
        // Where there is no folder for temporary files, asking for it would end the program.
        if cfg!(target_family = "wasm") {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut copy = tempfile::tempfile()?;
        let n_copied = io::copy(&mut (&self.file).take(self.n_bytes()), &mut copy)?;
        if n_copied < self.n_bytes() {
            return Err(io::Error::other(CHANGED));
        }
        // SAFETY: the copy has no name, and this function alone has it open, only to read from now on. So nothing
        // truncates or changes it while it is mapped.
        unsafe { MmapOptions::new().map(&copy) }
    }

    /// Returns what was read, if the file has not changed since it was opened.
    fn unless_changed<T>(&self, read: T) -> io::Result<T> {
        let now = self.file.metadata()?;
        let is_same = now.len() == self.opened.len() && now.modified().ok() == self.opened.modified().ok();
        if is_same { Ok(read) } else { Err(io::Error::other(CHANGED)) }
    }
}
