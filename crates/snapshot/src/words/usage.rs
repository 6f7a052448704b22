//! What a device reports of its memory: how much is used, by all processes, and how much of it is known to be whose.

use crate::words::DeviceId;

/// The name of the device that is a process's heap.
pub const HEAP: &str = "heap of the process";

/// The name that `memreel record` gives the device of pinned memory.
pub(crate) const PINNED: &str = "pinned host memory";

/// The addresses that a process has for itself and all of its devices, on x86-64: of 47 bits.
pub const ADDRESS_SPACE_BYTES: u64 = 1 << 47;

/// What a device reports of its memory at one time.
///
/// The bytes that a table of the device explains otherwise than by segments are here too, because they change with
/// time: a pool's reserve, what rounding to pages adds, the memory of other processes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct UsageReport {
    /// The bytes that the device reports as used, by every process.
    pub used_bytes: u64,
    /// The bytes of the device.
    pub total_bytes: u64,
    /// The bytes that other processes use; `None` if this process cannot see them.
    pub other_processes_bytes: Option<u64>,
    /// The bytes that are counted for no process although the device has them in use, as far as other processes are seen
    /// beside this one; alone, they are this process's.
    pub no_process_bytes: u64,
    /// The bytes that the driver's pools reserve beyond their live blocks.
    pub pool_slack_bytes: u64,
    /// The bytes that rounding to pages adds to the recorded sizes.
    pub page_rounding_bytes: u64,
    /// The bytes of addresses that this process has reserved of the driver on all devices, for memory to be mapped there.
    /// Addresses are no memory, and a process has [`ADDRESS_SPACE_BYTES`] of them.
    pub reserved_address_bytes: u64,
}

/// A report with its time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TimedUsage {
    /// Microseconds since the Unix epoch, on the clock of the events.
    pub time_us: u64,
    /// The report.
    pub report: UsageReport,
}

/// The reports of a device, oldest first, and which device it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceUsage {
    /// The number of the device in this process.
    pub device: DeviceId,
    /// The name of the device; empty if it is not known.
    pub name: String,
    /// What distinguishes the device from all others, in every process; empty if it is not known.
    pub uuid: String,
    /// The reports, oldest first. The highest and the last are always among them; of many others, every second, fourth,
    /// and so on.
    pub reports: Vec<TimedUsage>,
}

impl DeviceUsage {
    /// Returns whether it is memory of the host: the heap of the process, or pinned memory. GPUs have a `uuid`.
    #[must_use]
    pub fn is_host(&self) -> bool {
        self.uuid.is_empty()
    }

    /// Returns whether the device is a process's heap: its segments are runs of pages, which nothing requested.
    #[must_use]
    pub fn is_heap(&self) -> bool {
        self.name == HEAP
    }
}
