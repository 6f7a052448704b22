//! Tapes on systems on which memreel only reads: no file is mapped, and processes of another machine are not visible.
#![forbid(unsafe_code)]

use std::{
    fs::File,
    path::{Path, PathBuf},
    ptr::NonNull,
    sync::{Mutex, atomic::AtomicU64},
};

use super::{
    layout::{Beginning, DeviceWord},
    source::Memory,
};
use memreel_snapshot::words::{DeviceId, Error, Result};

/// Returns `None`: nothing is known about processes.
pub(crate) fn own_start() -> Option<u64> {
    None
}

/// Returns `false`: the process is on another machine.
pub(super) fn is_running(_process: u32, _began: u64, _namespace: u64) -> bool {
    false
}

/// A tape's file as memory: it never exists, so code that writes is never called.
#[derive(Debug)]
pub(super) enum Mapped {}

impl Mapped {
    /// Returns an error instead of creating the file of a tape.
    ///
    /// # Errors
    /// [`Error::is_io`], always.
    pub(super) fn create(path: &Path, _beginning: Beginning) -> Result<Mapped> {
        Mapped::attach(path)
    }

    /// Returns an error instead of writing on the tape of another process.
    ///
    /// # Errors
    /// [`Error::is_io`], always.
    pub(super) fn attach(path: &Path) -> Result<Mapped> {
        let why = std::io::Error::new(std::io::ErrorKind::Unsupported, "memreel records on Linux");
        Err(Error::io("cannot create", path, why))
    }

    pub(super) fn with_file<T>(&self, _work: impl FnOnce(&File) -> Result<T>) -> Result<T> {
        match *self {}
    }

    pub(super) fn device_word(&self, _place: usize, _word: DeviceWord) -> &AtomicU64 {
        match *self {}
    }

    pub(super) fn own_maps(&self) -> u64 {
        match *self {}
    }

    pub(super) fn path(&self) -> &Path {
        match *self {}
    }

    pub(super) fn set_alone(&self) {
        match *self {}
    }

    pub(super) fn is_cut(&self) -> bool {
        match *self {}
    }

    pub(super) fn is_open(&self) -> bool {
        match *self {}
    }

    pub(super) fn close(&self) {
        match *self {}
    }

    pub(super) fn leave(&self) {
        match *self {}
    }

    pub(super) fn lock(&self) -> &Mutex<()> {
        match *self {}
    }

    pub(super) fn next_use(&self) -> u64 {
        match *self {}
    }

    pub(super) fn take(&self) -> Option<(u32, NonNull<u8>, bool)> {
        match *self {}
    }

    pub(super) fn take_back(&self, _number: u32) {
        match *self {}
    }

    pub(super) fn memory(&self) -> Memory<'_> {
        match *self {}
    }

    pub(super) fn map_ahead(&self) {
        match *self {}
    }

    pub(super) fn promise(&self) {
        match *self {}
    }

    pub(super) fn heap(&self) -> Option<(DeviceId, u64)> {
        match *self {}
    }

    pub(super) fn beginning(&self) -> Beginning {
        match *self {}
    }

    pub(super) fn process_folder(&self) -> Option<PathBuf> {
        match *self {}
    }
}
