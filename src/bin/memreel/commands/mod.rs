//! One command a file.

pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod fix;
pub(crate) mod memory;
pub(crate) mod merge;
pub(crate) mod replay;
pub(crate) mod segments;
pub(crate) mod slim;
pub(crate) mod split;
pub(crate) mod stats;
pub(crate) mod trace;
pub(crate) mod validate;
