//! The files of snapshots: their names, and how they are written completely or not at all.
#![forbid(unsafe_code)]

pub(in crate::trigger) mod all;
pub(in crate::trigger) mod dumping;
pub(in crate::trigger) mod pattern;
pub(in crate::trigger) mod template;
pub(in crate::trigger) mod verdict;
pub(in crate::trigger) mod whole_file;
