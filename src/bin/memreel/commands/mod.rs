//! One command a file.

pub(crate) mod compare;
pub(crate) mod memory;
pub(crate) mod replay;
pub(crate) mod segments;
pub(crate) mod stats;
pub(crate) mod trace;
pub(crate) mod validate;
