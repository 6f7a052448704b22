//! Options that several commands share, and how their values are parsed.

#![forbid(unsafe_code)]

pub(crate) mod changes;
pub(crate) mod instant;
pub(crate) mod moment;
pub(crate) mod output;
mod shared;

pub(crate) use memreel_answers::At;
pub(crate) use output::replaces_no_snapshot;
pub(crate) use shared::{Devices, Input, Listing, device};
