//! Groups memory by the calls that hold it, allocated it or freed it, and distinguishes such calls.

mod owner_groups;
mod site;
mod same_calls;
mod site_finding;
mod site_key;
mod top;
mod allocated;
mod call_tree;
mod new_blocks;
mod churn;
mod with_frames;
mod site_list;

pub(super) use allocated::group_of;
pub use call_tree::{Branch, MAX_CALLS};
pub use churn::ChurnSite;
pub use new_blocks::NewBlocks;
pub use owner_groups::OwnerPeak;
pub(super) use same_calls::SameCalls;
pub use site::{BlockNames, Site};
pub use site_finding::SiteFinding;
pub(super) use site_key::{SiteKey, SiteKeys};
pub use site_list::{Rest, SiteList};
pub use top::{By, Group};
pub(super) use top::{by_frame, is_zero, sorted};
pub use with_frames::{AtSite, SiteFrames, WithFrames};
