//! What each owner holds, so that the rows add up to what the device or the kernel reports.

mod rounded;
mod owner_row;
mod mapped;
mod resident;
mod owner_part;
mod resident_table;
mod owner_table;
mod run_owners;
mod earlier_peak;

pub use mapped::MappedStack;
pub(super) use owner_part::time_of;
pub use owner_row::{DeviceOwners, HostFigures, OwnerRow, OwnerStack, RowKind};
pub use owner_table::owners;
pub use resident::has_other_allocator;
pub use run_owners::RunOwners;
