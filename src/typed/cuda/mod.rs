//! Typed memory for programs that use cudarc: slices that return to memreel's cache when dropped.
//!
//! A [`Slice`] works in kernels and copies like cudarc's `CudaSlice`: every function of cudarc that takes
//! `impl DevicePtr` accepts one. It is a separate type because a dropped `CudaSlice` frees its pointer with the driver,
//! while a block of memreel is part of a segment.
//!
//! ```no_run
//! use cudarc::driver::CudaContext;
//! use memreel::{Reel, device::Cuda};
//!
//! let stream = CudaContext::new(0)?.default_stream();
//! let reel = Reel::builder().device(Cuda::new(0)?).build()?;
//! let memory = reel.cuda(0)?;
//! let mut x = memory.copy_from(&[1.0_f32, 2.0, 3.0], &stream)?;
//! stream.memset_zeros(&mut x.slice_mut(1..2))?;
//! assert_eq!(stream.clone_dtoh(&x)?, [1.0, 0.0, 3.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A slice can be used on any stream of the primary context of any GPU (`CudaContext::new`), from any thread: memreel
//! orders the uses, and reuses the block when all of them are done. A use in another context panics.
//! [`Memory::capture`] captures work as a graph that keeps its memory.
//!
//! Functions that take a `CudaSlice` do not accept a [`Slice`]:
//!
//! ```compile_fail,E0308
//! fn free_with_the_driver(slice: cudarc::driver::CudaSlice<f32>) {}
//! # fn try_it(memory: &memreel::cuda::Memory, stream: &std::sync::Arc<cudarc::driver::CudaStream>) {
//! free_with_the_driver(memory.zeros::<f32>(10, stream).unwrap()); // mismatched types
//! # }
//! ```

mod captures;
mod elsewhere;
mod graph;
mod kept;
mod launch;
mod memory;
mod slice;
mod uses;
mod view;

pub use graph::Graph;
pub use launch::Argument;
pub use memory::Memory;
pub use slice::Slice;
pub use view::{View, ViewMut};
