//! A table of owners as it is shown: its rows, and what is beside them.

use serde::{Serialize, Serializer};

use super::mapped::MappedStack;
use crate::{
    model::StackIndex,
    words::{DeviceId, GroupReport},
};

/// Processes whose recordings end within this time of the last one count as those that are there now.
pub(super) const TOGETHER_US: i64 = 2_000_000;

/// The memory of one device, by owners.
///
/// The bytes of `rows` add up to what the device reports as used; without a report, to what was recorded.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct DeviceOwners {
    /// The number of the device, in the first of its snapshots.
    pub device: DeviceId,
    /// The name of the device; empty if it is not known.
    pub name: String,
    /// What distinguishes the device from all others; empty if it is not known.
    pub uuid: String,
    /// The places of the snapshots with this device in the list that was asked about.
    pub parts: Vec<usize>,
    /// The bytes of the device; `None` without a report.
    pub total_bytes: Option<u64>,
    /// The bytes that the last report has as used; `None` without a report.
    pub used_now_bytes: Option<u64>,
    /// The bytes that the highest report has as used; `None` without a report.
    pub used_peak_bytes: Option<u64>,
    /// The time of the last report, in microseconds since the Unix epoch.
    pub now_us: Option<u64>,
    /// The time of the highest report; without reports, of the most recorded bytes if their entry is dated.
    pub peak_us: Option<u64>,
    /// Whether the bytes are those of blocks, because its segments were not requested: of a process's heap.
    pub is_of_blocks: bool,
    /// The number of pinned blocks of PyTorch whose sizes are powers of two, when a process had the most bytes in them. PyTorch
    /// rounds requests up to such sizes, so up to half of each may be unused; a file does not have what was requested.
    pub n_rounded: u64,
    /// The bytes of these blocks.
    pub rounded_bytes: u64,
    /// The bytes of addresses that a process has reserved of the driver for memory to be mapped there: of the process with the
    /// most, at its last report. Addresses are no memory, and are in no row.
    pub reserved_address_bytes: u64,
    /// The most bytes of addresses of a report.
    pub reserved_address_peak_bytes: u64,
    /// The owners, by falling bytes at the peak; the parts of the driver; and what is not of segments.
    pub rows: Vec<OwnerRow>,
    /// What else the kernel says; `None` unless the table is of the resident memory of processes.
    pub host: Option<HostFigures>,
    /// Memory in no sum: managed memory, which may be on the host; imported memory, which counts where it is exported; and
    /// memory that is mapped once more.
    pub outside: Vec<OwnerRow>,
}

impl DeviceOwners {
    /// Returns the bytes that the processes of the table had at the peak beside those of one owner: what the driver has for them,
    /// and other libraries. `None` if the device reported nothing, or if the owner had nothing.
    #[must_use]
    pub fn peak_beside_bytes(&self, owner: &str) -> Option<u64> {
        self.used_peak_bytes?;
        let is_counted = |row: &&OwnerRow| {
            !matches!(row.kind, RowKind::OtherProcesses | RowKind::NoProcess | RowKind::Unexplained)
        };
        let (of_owner, others): (Vec<&OwnerRow>, Vec<&OwnerRow>) =
            self.rows.iter().filter(is_counted).partition(|row| row.owner == owner);
        let sum = |rows: &[&OwnerRow]| rows.iter().filter_map(|row| row.peak_bytes).sum::<i128>();
        (sum(&of_owner) > 0).then(|| u64::try_from(sum(&others)).unwrap_or(0))
    }
}

/// What a row of the table is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RowKind {
    /// A library or the program.
    Owner,
    /// A part of the driver's own memory.
    Driver,
    /// What an allocator has and no block has.
    Allocator,
    /// Anonymous memory that was mapped.
    Mapped,
    /// Memory that processes share.
    Shared,
    /// Mapped files.
    Files,
    /// Code and data of the program and of libraries.
    Library,
    /// Stacks of threads.
    Stacks,
    /// The recorder's own memory.
    Recorder,
    /// What the driver's pools reserve beyond their live blocks.
    PoolSlack,
    /// What rounding to pages adds.
    PageRounding,
    /// What other processes use.
    OtherProcesses,
    /// What is counted for no process.
    NoProcess,
    /// The difference between what the device reports as used and all other rows; negative if these have more.
    Unexplained,
}

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct OwnerRow {
    /// The name of the owner, or of what the row is about.
    pub owner: String,
    /// What the row is about.
    pub kind: RowKind,
    /// The bytes at the last report, or at the end without one; `None` if they are not visible.
    #[serde(serialize_with = "integer")]
    pub now_bytes: Option<i128>,
    /// The bytes at the report with the most used bytes, or without one when the most was recorded; `None` if they are not
    /// visible.
    #[serde(serialize_with = "integer")]
    pub peak_bytes: Option<i128>,
    /// The stack that asked for the most of it at the peak, or now if there was nothing at the peak.
    #[serde(skip)]
    pub largest: Option<OwnerStack>,
    /// The stack that asked for the most of it now; `None` if there is nothing now.
    #[serde(skip)]
    pub largest_now: Option<OwnerStack>,
    /// The stack that mapped the most of it, of memory of the host that the program mapped itself; at the peak, or now if there
    /// was nothing at the peak.
    #[serde(skip)]
    pub mapped: Option<MappedStack>,
    /// The stack that mapped the most of it now, of such memory.
    #[serde(skip)]
    pub mapped_now: Option<MappedStack>,
    /// The file with the most of it, and its bytes, of the memory of files.
    pub largest_file: Option<String>,
    /// The bytes of that file.
    pub largest_file_bytes: Option<u64>,
}

/// A stack of one of several snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OwnerStack {
    /// The place of its snapshot in the list that was asked about.
    pub part: usize,
    /// The stack.
    pub stack: StackIndex,
    /// The bytes that it asked for.
    pub bytes: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, clippy::ref_option, reason = "serde passes a reference")]
fn integer<S: Serializer>(bytes: &Option<i128>, serializer: S) -> Result<S::Ok, S::Error> {
    let saturated = |bytes: i128| i64::try_from(bytes).unwrap_or(if bytes < 0 { i64::MIN } else { i64::MAX });
    bytes.map(saturated).serialize(serializer)
}

/// What else the kernel says of the processes of a table, now.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct HostFigures {
    /// The bytes that are swapped out.
    pub swapped_bytes: u64,
    /// The resident bytes in huge pages.
    pub huge_bytes: u64,
    /// The allocator that serves `malloc` in place of the C library's, by its library: `jemalloc`, `tcmalloc` or `mimalloc`;
    /// `None` if none is loaded.
    pub allocator: Option<&'static str>,
    /// The bytes of whole resident pages that `malloc` has and no block touches: what glibc's `malloc_trim(0)` would return.
    pub unused_page_bytes: u64,
    /// The number of arenas that glibc's `malloc` made for threads, beside the main one.
    pub n_arenas: u64,
    /// The resident bytes of these arenas in which no block is.
    pub arena_unused_bytes: u64,
    /// What all arenas have unused, less what the one with the most has: what `MALLOC_ARENA_MAX=1` would save at most.
    pub one_arena_saves_bytes: u64,
    /// The mean interval in bytes at which a heap was sampled; 0 if every block was recorded. Of a sampled heap blocks are
    /// estimates, and pages that no sampled block is in count as unused, so that the rows do not add up.
    pub sample_bytes: u64,
    /// What the group of the processes (the cgroup) has; `None` if they are in none, or in several.
    pub group: Option<GroupReport>,
}
