//! An opaque error type of one word, with predicates for what a caller can act on.

use std::{
    error::Error as StdError,
    fmt, io,
    path::{Path, PathBuf},
};

mod out_of_memory;
mod refusal;

pub use out_of_memory::{OomVerdict, OutOfMemory};
pub use refusal::Refusal;

use crate::words::DeviceId;

/// The result of memreel's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// The error of memreel's functions. Its text states what happened and what to do about it.
///
/// The kinds are private, so that new ones can be added; the predicates distinguish those that callers act
/// on. The error is boxed, because it is part of the return value of every allocation and an unboxed one
/// would make all of them larger.
///
/// ```
/// use memreel::{Reel, device::Simulated};
///
/// let reel = Reel::builder().device(Simulated::new(1 << 30)).build()?;
/// let error = reel.alloc(2 << 30).unwrap_err();
/// assert!(error.is_out_of_memory());
/// assert_eq!(error.out_of_memory().unwrap().requested_bytes, 2 << 30);
/// # Ok::<(), memreel::Error>(())
/// ```
pub struct Error(Box<Kind>);

#[derive(Debug, thiserror::Error)]
enum Kind {
    #[error("{0}")]
    OutOfMemory(OutOfMemory),
    #[error("cannot allocate {bytes} bytes: {reason}")]
    InvalidSize { bytes: u64, absurd: bool, reason: &'static str },
    #[error("{option}: {given:?} is unknown; use {allowed}")]
    InvalidOption { option: &'static str, given: String, allowed: String },
    #[error("{origin}: {why}")]
    InvalidSettings { origin: &'static str, why: String },
    #[error("{0}")]
    InvalidView(String),
    #[error("{0}")]
    Misuse(String),
    #[error("{action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("not a readable snapshot: {what} (at byte {offset})")]
    Malformed { offset: u64, what: String },
    #[error("{0}")]
    Foreign(String),
    #[error("device {device}: {what}")]
    Device { device: String, what: String },
    #[error("the history of device {device}{}: {what}", at_entry(*entry))]
    History { device: DeviceId, entry: Option<usize>, what: String },
}

fn at_entry(entry: Option<usize>) -> String {
    entry.map(|entry| format!(", entry {entry}")).unwrap_or_default()
}

impl Error {
    /// Creates the error of a request that failed for lack of memory.
    #[cold]
    pub fn from_out_of_memory(figures: OutOfMemory) -> Error {
        Error(Box::new(Kind::OutOfMemory(figures)))
    }

    /// Creates the error of a request of no bytes.
    #[cold]
    pub fn zero_size() -> Error {
        let reason = "a block has at least one byte; skip the request, or request one byte";
        Error(Box::new(Kind::InvalidSize { bytes: 0, absurd: false, reason }))
    }

    /// Creates the error of a request of 2^60 bytes or more.
    #[cold]
    pub fn absurd_size(bytes: u64) -> Error {
        let reason = "more than 1EB; check the arithmetic that gave this size";
        Error(Box::new(Kind::InvalidSize { bytes, absurd: true, reason }))
    }

    /// Creates the error of an option with an unknown value; `allowed` lists the values to use instead.
    /// [`Error::is_invalid_option`] is then true.
    #[cold]
    pub fn invalid_option(option: &'static str, given: &str, allowed: impl Into<String>) -> Error {
        Error(Box::new(Kind::InvalidOption { option, given: given.into(), allowed: allowed.into() }))
    }

    /// Creates the error of a settings text; `origin` names its source. [`Error::is_invalid_option`] is then true.
    #[cold]
    pub fn invalid_settings(origin: &'static str, why: String) -> Error {
        Error(Box::new(Kind::InvalidSettings { origin, why }))
    }

    /// Creates the error of a view or an index outside its buffer.
    #[cold]
    pub fn invalid_view(what: impl Into<String>) -> Error {
        Error(Box::new(Kind::InvalidView(what.into())))
    }

    /// Creates the error of a call that its caller must not make; `what` is the message.
    /// [`Error::is_misuse`] is then true.
    #[cold]
    pub fn misuse(what: impl Into<String>) -> Error {
        Error(Box::new(Kind::Misuse(what.into())))
    }

    /// Creates the error of a file that could not be read or written.
    #[cold]
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error(Box::new(Kind::Io { action, path: path.into(), source }))
    }

    /// Creates the error of a file whose byte at `offset` is wrong.
    #[cold]
    pub fn malformed(offset: u64, what: impl Into<String>) -> Error {
        Error(Box::new(Kind::Malformed { offset, what: what.into() }))
    }

    /// Creates the error of a file that is not a snapshot as a whole, without a wrong byte at some offset.
    #[cold]
    pub fn foreign(what: impl Into<String>) -> Error {
        Error(Box::new(Kind::Foreign(what.into())))
    }

    /// Creates the error of a device.
    #[cold]
    pub fn device(device: &str, what: impl Into<String>) -> Error {
        Error(Box::new(Kind::Device { device: device.into(), what: what.into() }))
    }

    /// Creates the error of a history that cannot be replayed.
    #[cold]
    pub fn history(device: impl Into<DeviceId>, entry: Option<usize>, what: impl Into<String>) -> Error {
        Error(Box::new(Kind::History { device: device.into(), entry, what: what.into() }))
    }

    /// Returns whether a request failed for lack of memory. A size of 2^60 bytes or more counts, as in PyTorch.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(*self.0, Kind::OutOfMemory(_) | Kind::InvalidSize { absurd: true, .. })
    }

    /// Returns the memory figures of a failed request.
    #[must_use]
    pub fn out_of_memory(&self) -> Option<&OutOfMemory> {
        match &*self.0 {
            Kind::OutOfMemory(figures) => Some(figures),
            _ => None,
        }
    }

    /// Returns whether a requested size was 0, or 2^60 bytes or more.
    #[must_use]
    pub fn is_invalid_size(&self) -> bool {
        matches!(*self.0, Kind::InvalidSize { .. })
    }

    /// Returns whether an option or its value is unknown.
    #[must_use]
    pub fn is_invalid_option(&self) -> bool {
        matches!(*self.0, Kind::InvalidOption { .. } | Kind::InvalidSettings { .. })
    }

    /// Returns whether a view or an index would be outside its buffer.
    #[must_use]
    pub fn is_invalid_view(&self) -> bool {
        matches!(*self.0, Kind::InvalidView(_))
    }

    /// Returns whether the call is not possible for this value, such as a device number that a reel does not
    /// have.
    #[must_use]
    pub fn is_misuse(&self) -> bool {
        matches!(*self.0, Kind::Misuse(_))
    }

    /// Returns whether a file could not be read or written. The system's error is
    /// [`source`](std::error::Error::source).
    #[must_use]
    pub fn is_io(&self) -> bool {
        matches!(*self.0, Kind::Io { .. })
    }

    /// Returns whether a file was read, but is not a snapshot.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        matches!(*self.0, Kind::Malformed { .. } | Kind::Foreign(_))
    }

    /// Returns the offset of the first byte in a file that is not valid, if [`Error::is_malformed`] is true; 0
    /// if the file is not a snapshot as a whole.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        match *self.0 {
            Kind::Malformed { offset, .. } => Some(offset),
            Kind::Foreign(_) => Some(0),
            _ => None,
        }
    }

    /// Returns whether a recorded history cannot be replayed, because it is absent or contradicts itself.
    #[must_use]
    pub fn is_history(&self) -> bool {
        matches!(*self.0, Kind::History { .. })
    }

    /// Returns the index of the trace entry that contradicts earlier ones, if [`Error::is_history`] is true.
    #[must_use]
    pub fn entry(&self) -> Option<usize> {
        match *self.0 {
            Kind::History { entry, .. } => entry,
            _ => None,
        }
    }

    /// Returns whether a device failed for another reason than lack of memory.
    #[must_use]
    pub fn is_device(&self) -> bool {
        matches!(*self.0, Kind::Device { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Error {
    /// Formats the error like `Display`, because `main` and `unwrap` print the debug format.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &*self.0 {
            Kind::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
