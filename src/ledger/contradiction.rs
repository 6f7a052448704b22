//! A report to a ledger that contradicts earlier ones, and the reason.
#![forbid(unsafe_code)]

use std::{error, fmt};

use memreel_snapshot::words::{Address, Error};

/// The error of a report that a [`Ledger`](super::Ledger) rejected. It is printed with the address, the reason and
/// what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Contradiction {
    /// The address in the report.
    pub address: Address,
    /// Why the report was rejected.
    pub reason: Reason,
}

/// What becomes of a report.
pub(super) type Reported = Result<(), Contradiction>;

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
    /// No mapped segment is completely in the range.
    NoMapping,
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
            Reason::Empty => write!(f, "the range at {at} has no bytes; do not report empty ranges"),
            Reason::BeyondAddresses => {
                write!(f, "the range at {at} ends beyond the last address; its size is in bytes")
            }
            Reason::OverlapsBlock { address, bytes } => {
                write!(
                    f,
                    "the range at {at} overlaps the live block of {bytes} bytes at {address}; report its free first"
                )
            }
            Reason::OverlapsSegment { address, bytes } => {
                write!(
                    f,
                    "the range at {at} overlaps the segment of {bytes} bytes at {address}; report the free of that \
                     segment first, or a block within one segment"
                )
            }
            Reason::NoBlock => {
                write!(f, "no live block starts at {at}: it is free, or its allocation was not reported")
            }
            Reason::FreeRequested => {
                write!(f, "the free of the block at {at} was requested before; report its completion alone")
            }
            Reason::FreeNotRequested => {
                write!(
                    f,
                    "the free of the block at {at} was not requested; report that first, or both with `free`"
                )
            }
            Reason::NoSegment => {
                write!(f, "no segment starts at {at}: it is free, or its allocation was not reported")
            }
            Reason::NoMapping => {
                write!(
                    f,
                    "no mapped segment is completely in the range at {at}: report ranges that were mapped"
                )
            }
            Reason::HasBlock { address } => {
                write!(f, "the block at {address} in the segment at {at} is live; report its free first")
            }
        }
    }
}

impl error::Error for Contradiction {}

impl From<Contradiction> for Error {
    fn from(contradiction: Contradiction) -> Error {
        Error::misuse(contradiction.to_string())
    }
}
