//! The figures of a failed request, and the texts that are built from them.

use std::{fmt, path::PathBuf};

use crate::words::{Bytes, DeviceId, StreamId};

/// The memory figures at the time when a request failed, as in PyTorch's out-of-memory message
/// (docs/caching-allocator.md 3.5).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutOfMemory {
    /// The device's ordinal.
    pub device: DeviceId,
    /// The bytes that the program requested.
    pub requested_bytes: u64,
    /// The request after rounding; the size of the `oom` event.
    pub rounded_bytes: u64,
    /// The size of the segment that the device refused.
    pub segment_bytes: u64,
    /// The stream handle of the request.
    pub stream: StreamId,
    /// The device's total memory.
    pub device_total_bytes: u64,
    /// The device's free memory.
    pub device_free_bytes: u64,
    /// The memory limit of the allocator, if one is set.
    pub allowed_bytes: Option<u64>,
    /// Bytes in allocated blocks.
    pub allocated_bytes: u64,
    /// Bytes in segments of the allocator.
    pub reserved_bytes: u64,
    /// Bytes in free blocks of private pools, which the messages count as allocated.
    pub private_pool_bytes: u64,
    /// The snapshot that was written before this error was returned.
    pub snapshot: Option<PathBuf>,
    /// The reason why the requested snapshot could not be written.
    pub snapshot_failure: Option<String>,
    /// The snapshot of an earlier failure that is kept instead of one of this failure.
    pub kept_snapshot: Option<PathBuf>,
    /// Why the request failed. `None` if a verdict was made less than a second before, or could not be made.
    pub verdict: Option<OomVerdict>,
}

/// Why a request failed: the output of the command `memreel oom`.
///
/// It is made before the error is returned, of the blocks and the events of that moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OomVerdict {
    /// Lines of text: the reason first, then the figures, the stack of the request and the five stacks that hold the
    /// most memory.
    pub text: String,
    /// The same as an object of JSON, with the pairs of `memreel oom --json`.
    pub json: String,
}

impl OomVerdict {
    /// Creates a verdict: a text, and one object of JSON.
    #[must_use]
    pub fn new(text: String, json: String) -> OomVerdict {
        OomVerdict { text, json }
    }
}

impl OutOfMemory {
    /// Creates the figures of a device without memory; the caller sets those that it knows.
    #[must_use]
    pub fn new(device: impl Into<DeviceId>) -> OutOfMemory {
        OutOfMemory {
            device: device.into(),
            requested_bytes: 0,
            rounded_bytes: 0,
            segment_bytes: 0,
            stream: StreamId::DEFAULT,
            device_total_bytes: 0,
            device_free_bytes: 0,
            allowed_bytes: None,
            allocated_bytes: 0,
            reserved_bytes: 0,
            private_pool_bytes: 0,
            snapshot: None,
            snapshot_failure: None,
            kept_snapshot: None,
            verdict: None,
        }
    }

    /// Returns the bytes in the allocator's segments outside allocated blocks.
    #[must_use]
    pub fn unallocated_bytes(&self) -> u64 {
        self.reserved_bytes - self.allocated_bytes.min(self.reserved_bytes)
    }

    /// Returns the text of PyTorch 2.11's error with these figures (docs/caching-allocator.md 3.5), for tools
    /// that search for it.
    ///
    /// PyTorch also lists the processes that use memory, if NVIDIA's management library is loaded; memreel
    /// does not use that library.
    #[must_use]
    pub fn torch_message(&self) -> String {
        let allowed = self
            .allowed_bytes
            .map(|allowed| format!("{} allowed; ", TorchBytes(allowed)))
            .unwrap_or_default();
        let private = match self.private_pool_bytes {
            0 => String::new(),
            bytes => format!(", with {} allocated in private pools (e.g., CUDA Graphs)", TorchBytes(bytes)),
        };
        format!(
            "CUDA out of memory. Tried to allocate {}. GPU {} has a total capacity of {} of which {} is free. \
             {allowed}Of the allocated memory {} is allocated by PyTorch{private}, and {} is reserved by PyTorch \
             but unallocated. If reserved but unallocated memory is large try setting \
             PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for \
             Memory Management  \
             (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)",
            TorchBytes(self.segment_bytes),
            self.device,
            TorchBytes(self.device_total_bytes),
            TorchBytes(self.device_free_bytes),
            TorchBytes(self.allocated_bytes.saturating_add(self.private_pool_bytes)),
            TorchBytes(self.unallocated_bytes().saturating_sub(self.private_pool_bytes)),
        )
    }
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "out of memory: {} needs a segment of {} on device {}; it has {} in all, {} free",
            Bytes(self.requested_bytes),
            Bytes(self.segment_bytes),
            self.device,
            Bytes(self.device_total_bytes),
            Bytes(self.device_free_bytes),
        )?;
        if let Some(allowed) = self.allowed_bytes {
            write!(f, "; this allocator may hold {}", Bytes(allowed))?;
        }
        write!(
            f,
            "; {} is allocated, {} is reserved but unallocated",
            Bytes(self.allocated_bytes.saturating_add(self.private_pool_bytes)),
            Bytes(self.unallocated_bytes().saturating_sub(self.private_pool_bytes)),
        )?;
        if self.private_pool_bytes > 0 {
            write!(f, " ({} of the allocated in private pools)", Bytes(self.private_pool_bytes))?;
        }
        match (&self.snapshot, &self.snapshot_failure, &self.kept_snapshot) {
            (Some(path), ..) => write!(f, "; see {} for what holds them", path.display()),
            (None, Some(why), _) => write!(f, "; no snapshot could be saved: {why}"),
            (None, None, Some(path)) => {
                write!(f, "; see {} for an earlier failure, whose snapshot is kept", path.display())
            }
            (None, None, None) => {
                write!(f, "; call save_on_oom to get a snapshot that shows what holds them")
            }
        }?;
        match &self.verdict {
            Some(verdict) => write!(f, "\n{}", verdict.text),
            None => Ok(()),
        }
    }
}

/// Formats bytes like PyTorch's out-of-memory message (docs/caching-allocator.md 3.5).
struct TorchBytes(u64);

impl fmt::Display for TorchBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[allow(clippy::cast_precision_loss)]
        let bytes = self.0 as f64;
        match UNITS.into_iter().rev().find(|(_, unit)| self.0 > *unit) {
            Some((name, unit)) => write!(f, "{:.2} {name}", bytes / unit as f64),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

const UNITS: [(&str, u64); 3] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_pytorchs_message() {
        let mib = 1 << 20;
        let sizes = [1000, 1024, mib - 6, mib - 1, mib, 1024 * mib - 1, 1024 * mib];
        let torch = [
            "1000 bytes",
            "1024 bytes",
            "1023.99 KiB",
            "1024.00 KiB",
            "1024.00 KiB",
            "1024.00 MiB",
            "1024.00 MiB",
        ];
        assert_eq!(sizes.map(|bytes| TorchBytes(bytes).to_string()), torch);
    }
}
