//! The files of snapshots: their names, written as a whole.
#![forbid(unsafe_code)]

pub(in crate::trigger) mod all;
pub(in crate::trigger) mod dumping;
pub(in crate::trigger) mod pattern;
pub(in crate::trigger) mod template;
pub(in crate::trigger) mod verdict;
pub(in crate::trigger) mod whole_file;
