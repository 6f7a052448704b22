//! Findings that several commands print: why a request failed, from its snapshot or a log, and which sites grow.

#![forbid(unsafe_code)]

pub(crate) mod causes;
pub(crate) mod growth;
pub(crate) mod logged;
