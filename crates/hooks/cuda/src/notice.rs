//! One line on standard error.
#![forbid(unsafe_code)]

pub(crate) use memreel::integrate::notice as print;
