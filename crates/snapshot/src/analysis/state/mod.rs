//! What a device's memory was at any moment: blocks, segments, pools and totals.

mod address;
mod lives;
mod names;
mod levels;
mod run_peak;
mod segments;
mod shared;
mod totals;
mod device_history;
mod moments;
mod judged_trust;
mod histories;
mod layout;
mod holdings;
mod pools;
mod timeline;

pub use address::{AddressChange, AddressEvent, AddressHistory};
pub use device_history::{DeviceHistory, devices};
pub use histories::Histories;
pub(super) use holdings::{Holding, has_requests, holdings, of_blocks};
pub use layout::{Gap, SegmentLayout};
pub(super) use levels::highest_levels;
pub(super) use lives::Lives;
pub use pools::Pools;
pub use run_peak::EarlierPeak;
pub use segments::SegmentRange;
pub(super) use shared::{SharedRecords, StayedLines};
pub use timeline::{Axis, Point};
pub use totals::Totals;
