//! Tapes read again: those of processes that have ended, and those that grow. Nothing is recorded here.
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod follow;
#[cfg(target_os = "linux")]
mod followed;
#[cfg(target_os = "linux")]
mod outside;
mod recovered;
#[cfg(target_os = "linux")]
mod tape_keeper;

#[cfg(target_os = "linux")]
pub(crate) use follow::FollowedTape;
#[cfg(target_os = "linux")]
pub(crate) use followed::{FollowedCounts, FollowedState, HeldSums};
#[cfg(target_os = "linux")]
pub use outside::Onlooker;
pub(crate) use recovered::{PastInventory, PastTape, restore};
#[cfg(target_os = "linux")]
pub use tape_keeper::{SpaceMaker, TapeKeeper};
