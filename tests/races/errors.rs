//! Tests errors that a context keeps for its next call, and calls of the driver that fail.

use cudarc::driver::{DriverError, sys};

use super::{
    fake,
    order::{N, start, streams},
};

const PENDING: DriverError = DriverError(sys::CUresult::CUDA_ERROR_LAUNCH_TIMEOUT);

/// cudarc returns an error that a context keeps at its next call, which then does nothing.
pub(crate) fn a_pending_error_is_not_an_order() {
    let (_reel, memory, context) = start();
    let [own, other] = streams(&context);
    for _ in 0..3 {
        let mut source = memory.zeros::<f32>(N, &own).unwrap();
        context.record_err::<()>(Err(PENDING));
        let argument = source.on(&other);
        drop(argument);
        context.record_err::<()>(Err(PENDING));
        let _ = context.check_err();
        let mut target = memory.zeros::<f32>(N, &other).unwrap();
        {
            // As the copy of cudarc does, with an error of another thread in between.
            use cudarc::driver::{DevicePtr, DevicePtrMut};
            context.record_err::<()>(Err(PENDING));
            let (from, from_guard) = source.device_ptr(&other);
            let (to, to_guard) = target.device_ptr_mut(&other);
            // SAFETY: both are of this size.
            unsafe { cudarc::driver::result::memcpy_dtod_async(to, from, N * 4, other.cu_stream()).unwrap() };
            context.record_err::<()>(Err(PENDING));
            drop((from_guard, to_guard));
        }
        let _ = context.check_err();
        own.memset_zeros(&mut source).unwrap();
        drop((source, target));
    }
    let _ = context.check_err();
}

/// Every call that orders streams fails once, at each place.
pub(crate) fn a_failing_wait_becomes_a_wait_of_the_host() {
    for call in
        [c"cuStreamWaitEvent", c"cuEventRecord", c"cuEventCreate", c"cuStreamIsCapturing", c"cuStreamCreate"]
    {
        for n_passed in 0..8 {
            let (_reel, memory, context) = start();
            let [own, s1, s2] = streams(&context);
            let mut source = memory.zeros::<f32>(N, &own).unwrap();
            let mut targets = [memory.zeros::<f32>(N, &s1).unwrap(), memory.zeros::<f32>(N, &s2).unwrap()];
            fake::fail(call, n_passed, 1, 702);
            let _ = s1.memcpy_dtod(&source, &mut targets[0]);
            let _ = s2.memcpy_dtod(&source, &mut targets[1]);
            let _ = own.memset_zeros(&mut source);
            drop((source, targets));
            for stream in [&own, &s1, &s2] {
                drop(memory.zeros::<f32>(N, stream));
            }
            fake::end_failures();
            let found = fake::violations();
            assert!(found.is_empty(), "{call:?} after {n_passed}: {found}");
        }
    }
}
