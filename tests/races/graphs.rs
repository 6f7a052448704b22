//! Tests captures that fail, and the limit of cudarc's own graphs. `tests/gpu/typed.rs` tests that a graph keeps
//! its memory.

use std::thread;

use cudarc::driver::sys;
use memreel::{Error, PoolId, allocator::Route};

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

/// The id of a pool is a number that any code can write. A block of the graph's pool that was handed out to others
/// would be written at each launch.
pub(crate) fn only_a_graph_uses_its_pool() {
    let (reel, memory, context) = start();
    let allocator = reel.allocator(0).unwrap();
    let [own, other] = streams(&context);
    let mut target = memory.zeros::<u8>(N, &other).unwrap();
    let temporary = || memory.zeros::<u8>(N, &own).map(drop);
    let (graph, ()) = memory.capture(&own, temporary).unwrap();
    for pool in (1..4).map(PoolId::of_graph) {
        let begun = allocator.begin_pool(pool, Route::Thread);
        let slice = memory.zeros::<u8>(N, &own).unwrap();
        other.memcpy_dtod(&slice, &mut target).unwrap();
        graph.launch().unwrap();
        let released = [(); 2].map(|()| allocator.release_pool(pool));
        let ended = allocator.end_pool(pool);
        allocator.empty_cache().unwrap();
        graph.launch().unwrap();
        fake::assert_clean();
        for refused in [begun, ended].into_iter().chain(released) {
            assert!(refused.unwrap_err().is_misuse());
        }
    }
}

/// Another thread captures too while two streams of one capture use a slice.
pub(crate) fn captures_of_two_threads_are_two() {
    let (_reel, memory, context) = start();
    let [own, side, far] = streams(&context);
    let mut slice = memory.zeros::<u8>(N, &own).unwrap();
    let elsewhere = || drop(memory.capture(&far, || memory.zeros::<u8>(N, &far).map(drop)).unwrap());
    let work = || {
        for _ in 0..2 {
            side.memset_zeros(&mut slice).unwrap();
            thread::scope(|scope| scope.spawn(elsewhere).join()).unwrap();
            own.memset_zeros(&mut slice).unwrap();
        }
        own.join(&side).unwrap();
        Ok(())
    };
    let (graph, ()) = memory.capture(&own, work).unwrap();
    graph.launch().unwrap();
    context.synchronize().unwrap();
}
