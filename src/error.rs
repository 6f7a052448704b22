//! One opaque error, one word wide, with predicates for what a caller may act on.
#![forbid(unsafe_code)]

use std::{
    error::Error as StdError,
    fmt, io,
    path::{Path, PathBuf},
};

use crate::event::{DeviceId, StreamId};

/// What memreel's functions return.
pub type Result<T> = std::result::Result<T, Error>;

/// Anything that went wrong, with what to do about it in its text.
///
/// The kinds are private: ask with the predicates. It is boxed because it
/// travels through every allocation's return value.
pub struct Error(Box<Kind>);

#[derive(Debug, thiserror::Error)]
enum Kind {
    #[error("{0}")]
    OutOfMemory(OutOfMemory),
    #[error("cannot allocate {bytes} bytes: {reason}")]
    InvalidSize { bytes: u64, absurd: bool, reason: &'static str },
    #[error("{option}: {given:?} is not known; say {allowed}")]
    InvalidOption { option: &'static str, given: String, allowed: String },
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

/// The figures of a failed request, as PyTorch's out-of-memory message carries them.
///
/// All in bytes, taken at the moment the request failed (caching-allocator.md 3.5).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutOfMemory {
    /// The device's ordinal.
    pub device: DeviceId,
    /// What the program asked for.
    pub requested_bytes: u64,
    /// The request after rounding; the size of the `oom` event.
    pub rounded_bytes: u64,
    /// What the device was asked for.
    pub segment_bytes: u64,
    /// The stream handle of the request.
    pub stream: StreamId,
    /// The device's memory.
    pub device_total_bytes: u64,
    /// What the device had free.
    pub device_free_bytes: u64,
    /// The memory limit, where one is set.
    pub allowed_bytes: Option<u64>,
    /// In blocks the program holds.
    pub allocated_bytes: u64,
    /// In segments held from the device.
    pub reserved_bytes: u64,
    /// Free blocks of private pools, counted as allocated.
    pub private_pool_bytes: u64,
    /// The snapshot that was written before this error was returned.
    pub snapshot: Option<PathBuf>,
    /// Why the snapshot that was asked for could not be written.
    pub snapshot_failure: Option<String>,
}

impl OutOfMemory {
    /// Held from the device and not in any block the program holds.
    #[must_use]
    pub fn unallocated_bytes(&self) -> u64 {
        self.reserved_bytes - self.allocated_bytes.min(self.reserved_bytes)
    }
}

impl OutOfMemory {
    /// The text of PyTorch 2.11's error with these figures, field by field
    /// (caching-allocator.md 3.5), for tools that look for it.
    ///
    /// PyTorch also names processes that hold memory where NVIDIA's management
    /// library is loaded; memreel does not ask that library.
    #[must_use]
    pub fn torch_message(&self) -> String {
        let allowed =
            self.allowed_bytes.map(|allowed| format!("{} allowed; ", Bytes(allowed))).unwrap_or_default();
        let private = match self.private_pool_bytes {
            0 => String::new(),
            bytes => format!(", with {} allocated in private pools (e.g., CUDA Graphs)", Bytes(bytes)),
        };
        format!(
            "CUDA out of memory. Tried to allocate {}. GPU {} has a total capacity of {} of which {} is free. \
             {allowed}Of the allocated memory {} is allocated by PyTorch{private}, and {} is reserved by PyTorch \
             but unallocated. If reserved but unallocated memory is large try setting \
             PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for \
             Memory Management  \
             (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)",
            Bytes(self.segment_bytes),
            self.device,
            Bytes(self.device_total_bytes),
            Bytes(self.device_free_bytes),
            Bytes(self.allocated_bytes + self.private_pool_bytes),
            Bytes(self.unallocated_bytes().saturating_sub(self.private_pool_bytes)),
        )
    }
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "out of memory: {} need a segment of {} on device {}; it has {} in all, {} free",
            Bytes(self.requested_bytes),
            Bytes(self.segment_bytes),
            self.device,
            Bytes(self.device_total_bytes),
            Bytes(self.device_free_bytes),
        )?;
        if let Some(allowed) = self.allowed_bytes {
            write!(f, ", of which this allocator may hold {}", Bytes(allowed))?;
        }
        write!(
            f,
            "; {} are allocated, {} are reserved but unallocated",
            Bytes(self.allocated_bytes + self.private_pool_bytes),
            Bytes(self.unallocated_bytes().saturating_sub(self.private_pool_bytes)),
        )?;
        if self.private_pool_bytes > 0 {
            write!(f, " ({} of the allocated in private pools)", Bytes(self.private_pool_bytes))?;
        }
        match (&self.snapshot, &self.snapshot_failure) {
            (Some(path), _) => write!(f, "; see {} for what holds them", path.display()),
            (None, Some(why)) => write!(f, "; no snapshot could be saved: {why}"),
            (None, None) => write!(f, "; a snapshot (save_on_oom) shows what holds them"),
        }
    }
}

/// Bytes as PyTorch's out-of-memory message prints them (caching-allocator.md 3.5).
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const KIB: u64 = 1024;
        const MIB: u64 = KIB * KIB;
        const GIB: u64 = MIB * KIB;
        #[allow(clippy::cast_precision_loss)]
        let bytes = self.0 as f64;
        if self.0 <= KIB {
            write!(f, "{} bytes", self.0)
        } else if self.0 <= MIB {
            write!(f, "{:.2} KiB", bytes / KIB as f64)
        } else if self.0 <= GIB {
            write!(f, "{:.2} MiB", bytes / MIB as f64)
        } else {
            write!(f, "{:.2} GiB", bytes / GIB as f64)
        }
    }
}

impl Error {
    #[cold]
    pub(crate) fn from_out_of_memory(figures: OutOfMemory) -> Error {
        Error(Box::new(Kind::OutOfMemory(figures)))
    }

    #[cold]
    pub(crate) fn zero_size() -> Error {
        let reason = "a block has at least one byte; skip the request, or ask for one";
        Error(Box::new(Kind::InvalidSize { bytes: 0, absurd: false, reason }))
    }

    #[cold]
    pub(crate) fn absurd_size(bytes: u64) -> Error {
        let reason = "more than 1EB; check the arithmetic that gave this size";
        Error(Box::new(Kind::InvalidSize { bytes, absurd: true, reason }))
    }

    /// Creates the error of an option whose value is not allowed; `allowed` says what is.
    #[cold]
    pub fn invalid_option(option: &'static str, given: &str, allowed: impl Into<String>) -> Error {
        Error(Box::new(Kind::InvalidOption { option, given: given.into(), allowed: allowed.into() }))
    }

    #[cold]
    pub(crate) fn invalid_view(what: impl Into<String>) -> Error {
        Error(Box::new(Kind::InvalidView(what.into())))
    }

    /// Creates the error of a call that its caller should not have made; `what` says why.
    #[cold]
    pub fn misuse(what: impl Into<String>) -> Error {
        Error(Box::new(Kind::Misuse(what.into())))
    }

    #[cold]
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error(Box::new(Kind::Io { action, path: path.into(), source }))
    }

    #[cold]
    pub(crate) fn malformed(offset: u64, what: impl Into<String>) -> Error {
        Error(Box::new(Kind::Malformed { offset, what: what.into() }))
    }

    /// The bytes are sound, or something else's: no byte of them is to blame.
    #[cold]
    pub(crate) fn foreign(what: impl Into<String>) -> Error {
        Error(Box::new(Kind::Foreign(what.into())))
    }

    #[cold]
    pub(crate) fn device(device: &str, what: impl Into<String>) -> Error {
        Error(Box::new(Kind::Device { device: device.into(), what: what.into() }))
    }

    #[cold]
    pub(crate) fn history(device: DeviceId, entry: Option<usize>, what: impl Into<String>) -> Error {
        Error(Box::new(Kind::History { device, entry, what: what.into() }))
    }

    /// Whether a request failed for lack of memory. A size beyond 2^60 counts, as in PyTorch.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(*self.0, Kind::OutOfMemory(_) | Kind::InvalidSize { absurd: true, .. })
    }

    /// The figures of a failed request.
    #[must_use]
    pub fn out_of_memory(&self) -> Option<&OutOfMemory> {
        match &*self.0 {
            Kind::OutOfMemory(figures) => Some(figures),
            _ => None,
        }
    }

    /// Whether a size was zero or absurd.
    #[must_use]
    pub fn is_invalid_size(&self) -> bool {
        matches!(*self.0, Kind::InvalidSize { .. })
    }

    /// Whether an option or its text is unknown.
    #[must_use]
    pub fn is_invalid_option(&self) -> bool {
        matches!(*self.0, Kind::InvalidOption { .. })
    }

    /// Whether a view would leave its storage.
    #[must_use]
    pub fn is_invalid_view(&self) -> bool {
        matches!(*self.0, Kind::InvalidView(_))
    }

    /// Whether memreel was asked for something that this value cannot do.
    #[must_use]
    pub fn is_misuse(&self) -> bool {
        matches!(*self.0, Kind::Misuse(_))
    }

    /// Whether a file could not be read or written.
    #[must_use]
    pub fn is_io(&self) -> bool {
        matches!(*self.0, Kind::Io { .. })
    }

    /// Whether a file's bytes are not a snapshot.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        matches!(*self.0, Kind::Malformed { .. } | Kind::Foreign(_))
    }

    /// Where in the file the bytes stop making sense; 0 where the file is something else as a whole.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        match *self.0 {
            Kind::Malformed { offset, .. } => Some(offset),
            Kind::Foreign(_) => Some(0),
            _ => None,
        }
    }

    /// Whether a recorded history cannot be run again: there is none, or it contradicts itself.
    #[must_use]
    pub fn is_history(&self) -> bool {
        matches!(*self.0, Kind::History { .. })
    }

    /// The index of the trace entry that contradicts those before it.
    #[must_use]
    pub fn entry(&self) -> Option<usize> {
        match *self.0 {
            Kind::History { entry, .. } => entry,
            _ => None,
        }
    }

    /// Whether a device failed in another way than being full.
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
    /// The same text as `Display`: `main` and `unwrap` print this one.
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
