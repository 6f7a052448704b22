//! A report to a ledger that contradicts earlier ones, and the reason.
#![forbid(unsafe_code)]

use std::fmt;

use memreel_snapshot::words::Address;

/// A report that a [`Ledger`](super::Ledger) rejected, from
/// [`Ledger::latest_contradiction`](super::Ledger::latest_contradiction). It is printed with the address and the
/// reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Contradiction {
    /// The address in the report.
    pub address: Address,
    /// Why the report was rejected.
    pub reason: Reason,
}

/// Why a [`Ledger`](super::Ledger) rejected a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The range has no bytes.
    Empty,
    /// The end of the range exceeds 64 bits.
    BeyondAddresses,
    /// The range overlaps a live block.
    OverlapsBlock {
        /// Where the block starts.
        address: Address,
        /// Its size in bytes.
        bytes: u64,
    },
    /// The range overlaps a segment; the range of a block is only partly in the segment.
    OverlapsSegment {
        /// Where the segment starts.
        address: Address,
        /// Its size in bytes.
        bytes: u64,
    },
    /// No live block starts at the address.
    NoBlock,
    /// The free of the block at the address was already requested.
    FreeRequested,
    /// The free of the block at the address was not requested.
    FreeNotRequested,
    /// No segment starts at the address.
    NoSegment,
    /// A block in the segment is live.
    HasBlock {
        /// Where the block starts.
        address: Address,
    },
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.address;
        match self.reason {
            Reason::Empty => write!(f, "the range at {at} has no bytes"),
            Reason::BeyondAddresses => write!(f, "the range at {at} ends beyond the last address"),
            Reason::OverlapsBlock { address, bytes } => {
                write!(f, "the range at {at} overlaps the live block of {bytes} bytes at {address}")
            }
            Reason::OverlapsSegment { address, bytes } => {
                write!(f, "the range at {at} overlaps the segment of {bytes} bytes at {address}")
            }
            Reason::NoBlock => {
                write!(f, "no live block starts at {at}: it is free, or its allocation was not reported")
            }
            Reason::FreeRequested => write!(f, "the free of the block at {at} was requested before"),
            Reason::FreeNotRequested => write!(f, "the free of the block at {at} was not requested"),
            Reason::NoSegment => {
                write!(f, "no segment starts at {at}: it is free, or its allocation was not reported")
            }
            Reason::HasBlock { address } => {
                write!(f, "the block at {address} in the segment at {at} is live")
            }
        }
    }
}
