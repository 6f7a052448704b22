//! What several commands say: why a request failed, by its snapshot or by a log, and which sites grow.

#![forbid(unsafe_code)]

pub(crate) mod causes;
pub(crate) mod growth;
pub(crate) mod logged;
