//! The table of owners as it is shown: its rows, and additional facts.

use serde::{Serialize, Serializer};

use super::mapped::MappedStack;
use crate::{
    model::StackIndex,
    words::{DeviceId, GroupReport},
};

/// Processes whose recordings end within this time of the last one count as still running.
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
    /// The identity of the device; empty if it is not known.
    pub uuid: String,
    /// The places of the snapshots with this device in the list.
    pub parts: Vec<usize>,
    /// The bytes of the device; `None` without a report.
    pub total_bytes: Option<u64>,
    /// The used bytes in the last report; `None` without a report.
    pub used_now_bytes: Option<u64>,
    /// The used bytes in the highest report; `None` without a report.
    pub used_peak_bytes: Option<u64>,
    /// The time of the last report, in microseconds since the Unix epoch.
    pub now_us: Option<u64>,
    /// The time of the highest report; without reports, of the most recorded bytes if their entry has a time.
    pub peak_us: Option<u64>,
    /// Whether the bytes are those of blocks, because its segments were not requested: for a process's heap.
    pub is_of_blocks: bool,
    /// The number of pinned blocks of PyTorch whose sizes are powers of two, when a process had the most bytes in them.
    /// PyTorch rounds requests up to such sizes, so up to half of each may be unused; a file does not have the
    /// requested sizes.
    pub n_rounded: u64,
    /// The bytes of these blocks.
    pub rounded_bytes: u64,
    /// The bytes of addresses that a process has reserved from the driver to map memory at: for the process with the
    /// most, at its last report. Addresses are not memory, and are in no row.
    pub reserved_address_bytes: u64,
    /// The most bytes of addresses of a report.
    pub reserved_address_peak_bytes: u64,
    /// The owners, largest peak first; the parts of the driver; and what is not in segments.
    pub rows: Vec<OwnerRow>,
    /// The kernel's other figures; `None` unless the table shows the resident memory of processes.
    pub host: Option<HostFigures>,
    /// Memory in no sum: managed memory, which may be on the host; imported memory, which counts where it is exported;
    /// and memory that is mapped again.
    pub outside: Vec<OwnerRow>,
}

impl DeviceOwners {
    /// Returns the bytes that the processes of the table had at the peak in addition to one owner's: the driver's
    /// memory for them, and other libraries. `None` if the device reported nothing, or if the owner had nothing.
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
    /// What an allocator holds outside blocks.
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
    /// What is not attributed to any process.
    NoProcess,
    /// The difference between what the device reports as used and all other rows; negative if these have more.
    Unexplained,
}

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct OwnerRow {
    /// The name of the owner, or of the subject of the row.
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
    /// The stack that requested the most of it at the peak, or now if there was nothing at the peak.
    #[serde(skip)]
    pub largest: Option<OwnerStack>,
    /// The stack that requested the most of it now; `None` if there is nothing now.
    #[serde(skip)]
    pub largest_now: Option<OwnerStack>,
    /// For host memory that the program mapped itself: the stack that mapped the most of it at the peak, or now if
    /// there was nothing at the peak.
    #[serde(skip)]
    pub mapped: Option<MappedStack>,
    /// For such memory: the stack that mapped the most of it now.
    #[serde(skip)]
    pub mapped_now: Option<MappedStack>,
    /// For file memory: the file with the most of it, and its bytes.
    pub largest_file: Option<String>,
    /// The bytes of that file.
    pub largest_file_bytes: Option<u64>,
}

/// A stack of one of several snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OwnerStack {
    /// The place of its snapshot in the list.
    pub part: usize,
    /// The stack.
    pub stack: StackIndex,
    /// The bytes that it requested.
    pub bytes: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, clippy::ref_option, reason = "serde passes a reference")]
fn integer<S: Serializer>(bytes: &Option<i128>, serializer: S) -> Result<S::Ok, S::Error> {
    let saturated = |bytes: i128| i64::try_from(bytes).unwrap_or(if bytes < 0 { i64::MIN } else { i64::MAX });
    bytes.map(saturated).serialize(serializer)
}

/// The kernel's other figures for the processes of a table, now.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct HostFigures {
    /// The bytes that are swapped out.
    pub swapped_bytes: u64,
    /// The resident bytes in huge pages.
    pub huge_bytes: u64,
    /// The allocator that replaces the C library's `malloc`, by its library: `jemalloc`, `tcmalloc` or `mimalloc`;
    /// `None` if none is loaded.
    pub allocator: Option<&'static str>,
    /// The bytes of whole resident pages that `malloc` holds and no block touches: what glibc's `malloc_trim(0)` would
    /// return.
    pub unused_page_bytes: u64,
    /// The number of arenas that glibc's `malloc` created for threads, in addition to the main one.
    pub n_arenas: u64,
    /// The resident bytes of these arenas outside blocks.
    pub arena_unused_bytes: u64,
    /// What all arenas have unused, except for the one with the most: the most that `MALLOC_ARENA_MAX=1` could save.
    pub one_arena_saves_bytes: u64,
    /// The mean interval in bytes at which a heap was sampled; 0 if every block was recorded. In a sampled heap, blocks
    /// are estimates, and pages without a sampled block count as unused, so the rows do not add up.
    pub sample_bytes: u64,
    /// The memory of the processes' group (cgroup); `None` if they are in none, or in several.
    pub group: Option<GroupReport>,
}
