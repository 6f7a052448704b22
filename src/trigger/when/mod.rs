//! The conditions for snapshots: triggers, the variable `MEMREEL`, and what an active set writes.
#![forbid(unsafe_code)]

pub(in crate::trigger) mod armed;
pub(in crate::trigger) mod checked;
pub(in crate::trigger) mod environment;
pub(in crate::trigger) mod grammar;
pub(in crate::trigger) mod overlay;
pub(in crate::trigger) mod sets;
pub(in crate::trigger) mod triggers;
