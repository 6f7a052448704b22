//! Findings that several commands print: why a request failed, from its snapshot or a log, which sites grow, and the
//! summary of a device.

#![forbid(unsafe_code)]

pub(crate) mod causes;
pub(crate) mod growth;
pub(crate) mod logged;
pub(crate) mod summary;
pub(crate) mod summary_part;
