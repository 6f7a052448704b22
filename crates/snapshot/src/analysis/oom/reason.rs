//! The reason of a failed request in words.

use super::{OomReport, Verdict};
use crate::words::{ADDRESS_SPACE_BYTES, Bytes};

impl OomReport {
    /// Returns why the request failed, in one sentence with figures.
    #[must_use]
    pub fn why(&self) -> String {
        self.why_of(self.verdict)
    }

    /// Returns the sentence of a verdict.
    pub(super) fn why_of(&self, verdict: Verdict) -> String {
        let request = Bytes(self.requested_bytes);
        let (here, all) = (Bytes(self.free_here_bytes), Bytes(self.all_free_bytes()));
        let device = Bytes(self.device_free_bytes);
        match verdict {
            Verdict::Unused => {
                let piece = Bytes(self.largest_free_bytes);
                format!("a piece of {piece} was free but not used: {}", self.why_unused())
            }
            Verdict::Fragmented if self.free_here_bytes >= self.requested_bytes => {
                format!(
                    "{here} is free in segments of the request's stream and pool, but no single piece is as large as {request}"
                )
            }
            Verdict::Fragmented => format!(
                "{here} is free in segments of the request's stream and pool and {device} on the device, but no single \
                 piece is as large as {request}"
            ),
            Verdict::RoundedUp => {
                let segment = Bytes(self.segment_bytes);
                let what = if self.is_expandable { "pages of" } else { "a segment of" };
                let free = if self.free_here_bytes > 0 {
                    format!(" and {here} in segments of the request's stream and pool")
                } else {
                    String::new()
                };
                format!("the device has {device} free{free}, but {request} needs {what} {segment}")
            }
            Verdict::Elsewhere => format!(
                "{all} is free, but {} of it belongs to other streams, other pools, or the pool for the other block size (small or large)",
                Bytes(self.free_elsewhere_bytes),
            ),
            Verdict::Pending => format!(
                "{all} is free, and {} is freed but still waiting for a stream (record_stream): synchronise the stream before the request",
                Bytes(self.pending_bytes),
            ),
            Verdict::Limited => {
                format!("this process reached its memory limit; {all} is free in its segments")
            }
            Verdict::Occupied => format!(
                "{all} is free, and {} of the device is used outside this allocator: by other processes, or by \
                 this one's libraries",
                Bytes(self.outside_bytes().unwrap_or(0)),
            ),
            Verdict::Addresses => format!(
                "{request} of address space was requested, {} is reserved, and a process has {} (x86-64): \
                 the {device} free on the device does not help",
                Bytes(self.reserved_address_bytes.unwrap_or(0)),
                Bytes(ADDRESS_SPACE_BYTES),
            ),
            Verdict::Full => {
                let more = self.requested_bytes.saturating_sub(self.all_free_bytes());
                let more = Bytes(more.saturating_sub(self.pending_bytes));
                format!(
                    "all free memory, {all}, is less than {request}: free live blocks, or provide {more} more"
                )
            }
        }
    }

    /// Returns why a piece that was large enough may not have been used.
    fn why_unused(&self) -> String {
        if self.is_freed_late {
            return "it was freed only after the request had started to wait for a stream, and PyTorch does not search its free blocks again (pytorch#189504)"
                .to_owned();
        }
        let mut reasons = Vec::new();
        if self.pool.is_none() {
            reasons
                .push("the request was for a private pool (files from before PyTorch 2.12 do not name it)");
        }
        if self.has_max_split != Some(false) {
            reasons.push("max_split_size_mb keeps large blocks whole");
        }
        if !self.is_last {
            reasons.push("blocks were larger than the history shows");
        }
        if reasons.is_empty() { "the file does not show why".to_owned() } else { reasons.join(", or ") }
    }
}
