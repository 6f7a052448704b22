//! Typed arrays in allocated memory, on the host and on GPUs.
//!
//! `buffer` has typed arrays whose views share memory. `cuda` is for cudarc's functions and kernels: `uses` and `elsewhere` order the
//! streams that use a block, and `graph` keeps the memory of captured work.

pub(crate) mod buffer;
#[cfg(feature = "cuda")]
pub mod cuda;
