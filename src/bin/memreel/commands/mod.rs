//! One command a file.

pub(crate) mod replay;
pub(crate) mod validate;
