//! The figures of a message with their names, and their limitations.

use super::LoggedOom;
use crate::{analysis::Bytes, log::Program, words::torch::LARGE_SEGMENT_BYTES};

const MIB: u64 = 1 << 20;

impl LoggedOom<'_> {
    /// Returns the figures with their names, in the order in which they are read.
    #[must_use]
    pub fn figures(&self) -> Vec<(String, String)> {
        let (message, parts) = (self.message, &self.parts);
        let mut rows = Vec::new();
        let mut row = |name: &str, bytes: Option<u64>, note: &str| {
            rows.extend(bytes.map(|bytes| (name.to_owned(), format!("{}{note}", Bytes(bytes)))));
        };
        row("requested", Some(message.requested_bytes), self.request_note());
        row("the device", message.capacity_bytes, "");
        row("free on the device", message.free_bytes, "");
        row("limit", message.limit_bytes, if self.is_of_pool() { ", the size of the pool" } else { "" });
        row("this process", message.process_bytes, "");
        row("reserved", message.reserved_bytes(), "");
        row(
            "live",
            message.allocated_bytes,
            if message.private_pool_bytes.is_some() { ", including private pools" } else { "" },
        );
        row("free in private pools", message.private_pool_bytes, "");
        row("reserved, not in a block", message.unallocated_bytes, "");
        row("outside its allocator", parts.context_bytes, ": context, libraries");
        row("other allocations", message.other_bytes, "");
        for other in &parts.others {
            row(&format!("process {}", other.pid), Some(other.bytes), "");
        }
        if let Some(process) = parts.guessed {
            row(
                &format!("process {}", process.pid),
                Some(process.bytes),
                ": probably this one, with another PID in its container",
            );
        }
        row(
            "not in these figures",
            parts.unexplained_bytes.filter(|bytes| *bytes > message.rounding_bytes * 4),
            ": the driver, and processes that the message does not name",
        );
        for part in &message.parts {
            row(&part.name, Some(part.bytes), "");
        }
        rows
    }

    /// PyTorch prints the segment that it requested from the device.
    fn request_note(&self) -> &'static str {
        let is_torch = matches!(self.message.program, Program::Torch | Program::Memreel);
        match self.message.requested_bytes {
            bytes if is_torch && bytes == 2 * MIB => ", the segment for a request of at most 1.00 MiB",
            LARGE_SEGMENT_BYTES if is_torch => ", the segment for a request of 1.00 to 10.00 MiB",
            _ => "",
        }
    }

    /// Returns the releases that print this form of the message: `PyTorch 2.5 or later`; `None` if it does not show
    /// that.
    #[must_use]
    pub fn releases(&self) -> Option<String> {
        let (first, last) = self.message.releases?;
        Some(match last {
            Some(0) => "PyTorch 2.0 or earlier".to_owned(),
            last => crate::analysis::Releases { first, last }.to_string(),
        })
    }

    /// Returns the limitations of the figures, one sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let message = self.message;
        let mut notes = Vec::new();
        if message.is_cut {
            notes.push(
                "the message has no end: it was cut off, or has a format unknown to this memreel; figures \
                 that it lacks are missing above"
                    .to_owned(),
            );
        }
        notes.extend(
            message
                .unread
                .iter()
                .map(|part| format!("unknown to this memreel, perhaps from a later version: \"{part}\"")),
        );
        if let Some(reserved) = message.reserved_bytes()
            && message.capacity_bytes.is_some_and(|capacity| reserved > capacity)
        {
            notes.push(
                "more is reserved than the device has: the driver keeps the rest in system memory (Windows), \
                 or it is managed memory"
                    .to_owned(),
            );
        } else if self.parts.excess_bytes > message.rounding_bytes * 4 {
            notes.push(format!(
                "the parts exceed the device by {}: shared memory counts for each process, and the figures \
                 are from different moments",
                Bytes(self.parts.excess_bytes),
            ));
        }
        if self.is_close() {
            notes.push(format!(
                "figures are rounded by up to {}, and the cause depends on less",
                Bytes(message.rounding_bytes)
            ));
        }
        notes
    }

    /// Returns whether the free memory and the request differ by less than their rounding.
    fn is_close(&self) -> bool {
        self.report.as_ref().is_some_and(|report| {
            let asked = report.requested_bytes;
            [report.free_here_bytes, report.all_free_bytes(), report.device_free_bytes]
                .iter()
                .any(|free| free.abs_diff(asked) < 2 * self.message.rounding_bytes)
        })
    }
}
