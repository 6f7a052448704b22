//! Typed arrays in allocated memory, on the host and on GPUs.

pub(crate) mod buffer;
#[cfg(feature = "cuda")]
pub mod cuda;
