//! One command a file.

pub(crate) mod convert;
pub(crate) mod fix;
pub(crate) mod merge;
pub(crate) mod replay;
pub(crate) mod slim;
pub(crate) mod split;
pub(crate) mod stats;
pub(crate) mod validate;
