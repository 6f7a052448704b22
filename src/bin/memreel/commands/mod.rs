//! One command a file.

pub(crate) mod replay;
pub(crate) mod stats;
pub(crate) mod validate;
