//! The thread that writes snapshots, the active sets of triggers, the requests to it, and the hooks.

pub(in crate::trigger) mod exit;
pub(in crate::trigger) mod futex;
pub(in crate::trigger) mod install;
pub(in crate::trigger) mod panic;
pub(in crate::trigger) mod registry;
pub(in crate::trigger) mod requests;
pub(in crate::trigger) mod signal;
pub(in crate::trigger) mod worker;
