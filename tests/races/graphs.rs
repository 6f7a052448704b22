//! Tests captures that fail, and the limit of cudarc's own graphs. `tests/gpu/typed.rs` tests that a graph keeps
//! its memory.

use cudarc::driver::sys;
use memreel::Error;

use super::{
    fake,
    order::{N, start, streams},
};

/// A capture that fails leaves the stream, the pool and the routes as they were.
pub(crate) fn a_failed_capture_leaves_nothing() {
    let (reel, memory, context) = start();
    let allocator = reel.allocator(0).unwrap();
    let [own] = streams(&context);
    let error = memory.capture(&context.default_stream(), || Ok(())).map(drop).unwrap_err();
    assert!(error.is_device(), "{error}");
    let refused =
        memory.capture(&own, || Err::<(), Error>(memory.zeros::<u8>(usize::MAX, &own).unwrap_err()));
    assert!(refused.map(drop).unwrap_err().is_invalid_size());
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        memory.capture(&own, || -> memreel::Result<()> { panic!("on purpose") }).map(drop)
    }));
    assert!(caught.is_err());
    drop(memory.zeros::<u8>(N, &own).unwrap());
    own.synchronize().unwrap();
    allocator.empty_cache().unwrap();
    assert_eq!(allocator.memory_reserved(), 0);
}

/// What cudarc's own graphs cannot promise: this is why `Memory::capture` exists.
pub(crate) fn a_graph_of_cudarc_does_not_keep_it() {
    let (reel, memory, context) = start();
    let allocator = reel.allocator(0).unwrap();
    let [own] = streams(&context);
    let mut slice = memory.zeros::<u8>(N, &own).unwrap();
    own.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    own.memset_zeros(&mut slice).unwrap();
    let graph = own.end_capture(sys::CUgraphInstantiate_flags(0)).unwrap().unwrap();
    drop(slice);
    allocator.empty_cache().unwrap();
    assert!(graph.launch().is_err());
    assert!(fake::violations().contains("was freed"));
}
