//! The words that a recording and an answer share: events, addresses, devices, pools, inventories, sizes, errors.
//!
//! The package `memreel` records with these types, and everything above them here reads them. They know no file, no trace
//! and no format.
#![forbid(unsafe_code)]

mod action_name;
pub mod bytes;
mod error;
mod event;
mod finding;
mod inventory;
pub mod paths;
mod resident;
mod sample;
pub mod seeded;
pub mod torch;
pub mod usage;

pub use bytes::Bytes;
pub use error::{Error, OomVerdict, OutOfMemory, Refusal, Result};
pub use event::{Action, Address, DeviceId, Event, PoolId, StackId, StreamId};
pub(crate) use finding::Report;
pub use finding::{Finding, Rule, Severity};
pub use inventory::{
    BlockState, Inventory, InventoryBlock, InventorySegment, PoolKind, RunSums, SettingsReport, StackSum,
};
pub use resident::{AreaKind, GroupReport, ResidentArea, ResidentReport};
pub use sample::sample_weight;
pub use seeded::{Seeded, SeededMap, SeededSet};
pub use usage::{ADDRESS_SPACE_BYTES, DeviceUsage, TimedUsage, UsageReport};
