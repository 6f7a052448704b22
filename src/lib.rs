//! A flight recorder for GPU and host memory.

pub mod error;
pub mod event;
pub mod inventory;
pub mod pickle;
pub mod snapshot;
