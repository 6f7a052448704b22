//! Tests streams of other GPUs and of contexts that are not the primary one.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cudarc::driver::{CudaContext, sys};

use super::order::{N, start, streams};

/// The default streams of two GPUs have one handle, null.
pub(crate) fn null_streams_of_two_gpus_are_two() {
    let (_reel, memory, context) = start();
    let other = CudaContext::new(1).unwrap();
    for is_managed in [true, false] {
        let _streams = is_managed.then(|| (context.new_stream().unwrap(), other.new_stream().unwrap()));
        let (d0, d1) = (context.default_stream(), other.default_stream());
        let source = memory.zeros::<f32>(N, &d0).unwrap();
        // SAFETY: the values are not used.
        let mut host = unsafe { other.alloc_pinned::<f32>(N).unwrap() };
        d1.memcpy_dtoh(&source, &mut host).unwrap();
        drop(source);
        drop(memory.zeros::<f32>(N, &d0).unwrap());
        other.synchronize().unwrap();
    }
}

/// cudarc copies between contexts with the source's own stream, on which the source then has to wait itself.
pub(crate) fn a_copy_between_gpus_is_waited_for() {
    let (_reel, memory, context) = start();
    let other = CudaContext::new(1).unwrap();
    let ([own], [far]) = (streams(&context), streams(&other));
    let mut target = far.alloc_zeros::<f32>(N).unwrap();
    let mut source = memory.copy_from(&[3.0_f32; N], &own).unwrap();
    far.memcpy_dtod(&source, &mut target).unwrap();
    own.memset_zeros(&mut source).unwrap();
    far.memcpy_dtod(&source.slice(..10), &mut target).unwrap();
    drop(source);
    let mut again = memory.zeros::<f32>(N, &own).unwrap();
    far.memcpy_dtod(&target, &mut again.slice_mut(..)).unwrap();
    own.memset_zeros(&mut again).unwrap();
    far.synchronize().unwrap();
}

pub(crate) fn other_contexts_are_refused() {
    let (_reel, memory, context) = start();
    let mut created = std::ptr::null_mut();
    // SAFETY: the pointer is to a live value, and the new context belongs to `foreign` alone.
    let foreign = unsafe {
        sys::cuCtxCreate_v4(&raw mut created, std::ptr::null_mut(), 0, 0).result().unwrap();
        CudaContext::from_raw_context(0, 0, created).unwrap()
    };
    let [own] = streams(&context);
    for stream in [foreign.default_stream(), foreign.new_stream().unwrap()] {
        let refused = memory.zeros::<f32>(N, &stream).map(drop).unwrap_err();
        assert!(refused.is_misuse() && refused.to_string().contains("primary"), "{refused}");
        let source = memory.zeros::<f32>(N, &own).unwrap();
        let mut host = vec![0.0_f32; N];
        let text = panic_of(|| stream.memcpy_dtoh(&source, &mut host).unwrap());
        assert!(text.contains("primary"), "{text}");
        let mut target = stream.alloc_zeros::<f32>(N).unwrap();
        let text = panic_of(|| stream.memcpy_dtod(&source, &mut target).unwrap());
        assert!(text.contains("primary"), "{text}");
    }
}

fn panic_of(body: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(body)).expect_err("it panics");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}
