//! Kernel arguments: borrows that carry their stream, because cudarc's launch builder does not expose its own.

use std::sync::Arc;

use cudarc::driver::{CudaStream, LaunchArgs, PushKernelArg, SyncOnDrop, sys};

use super::uses::Uses;

/// A slice or a view as a kernel argument on one stream.
///
/// Launch the kernel on that stream. The values remain borrowed while the argument lives; drop it after the launch,
/// which makes the slice's own stream wait for the kernel.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
/// # fn double(f: &CudaFunction, x: &mut memreel::cuda::Slice<f32>, stream: &Arc<CudaStream>) {
/// let n = 1000_u32;
/// let x = x.on_mut(stream);
/// let mut launch = stream.launch_builder(f);
/// launch.arg(&x).arg(&n);
/// // SAFETY: the kernel doubles `n` floats.
/// unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }.unwrap();
/// # }
/// ```
#[derive(Debug)]
pub struct Argument<'a> {
    address: sys::CUdeviceptr,
    _sync: SyncOnDrop<'a>,
}

impl<'a> Argument<'a> {
    pub(super) fn new(uses: &'a Uses, offset_bytes: u64, stream: &'a Arc<CudaStream>) -> Argument<'a> {
        let (address, sync) = uses.begin_on(stream, offset_bytes);
        Argument { address, _sync: sync }
    }
}

// SAFETY: a reference to the address is pushed, and it outlives the builder ('b: 'a).
unsafe impl<'a, 'b: 'a, 'c: 'b> PushKernelArg<&'b Argument<'c>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, argument: &'b Argument<'c>) -> &mut Self {
        self.arg(&argument.address)
    }
}
