//! Tests slices that are dropped while requests are routed to a private pool.

use std::thread;

use cudarc::driver::sys;
use memreel::{
    StreamId,
    allocator::{PoolOptions, Route},
};

use super::order::{N, start, streams};

/// A slice of the default pool, and one of the pool, are used on another stream and dropped in between.
pub(crate) fn a_begun_pool_keeps_guards() {
    let (reel, memory, context) = start();
    let allocator = reel.allocator(0).unwrap();
    let [s1, s2] = streams(&context);
    let mut target = memory.zeros::<f32>(N, &s2).unwrap();
    let source = memory.zeros::<f32>(N, &s1).unwrap();
    let pool = allocator.create_pool(PoolOptions::default());
    allocator.begin_pool(pool, Route::Thread).unwrap();
    let routed = memory.zeros::<f32>(N, &s1).unwrap();
    s2.memcpy_dtod(&source, &mut target).unwrap();
    s2.memcpy_dtod(&routed, &mut target).unwrap();
    drop((source, routed));
    allocator.end_pool(pool).unwrap();
    let default = memory.zeros::<f32>(N, &s1).unwrap();
    allocator.begin_pool(pool, Route::Thread).unwrap();
    let private = memory.zeros::<f32>(N, &s1).unwrap();
    allocator.end_pool(pool).unwrap();
    drop((default, private));
}

/// A thread that never heard of the pool keeps its guards.
pub(crate) fn another_threads_pool_keeps_guards() {
    let (reel, memory, context) = start();
    let allocator = reel.allocator(0).unwrap();
    let [s1, s2] = streams(&context);
    let pool = allocator.create_pool(PoolOptions::default());
    thread::scope(|scope| scope.spawn(|| allocator.begin_pool(pool, Route::Thread).unwrap()).join().unwrap());
    let mut target = memory.zeros::<f32>(N, &s2).unwrap();
    let source = memory.zeros::<f32>(N, &s1).unwrap();
    s2.memcpy_dtod(&source, &mut target).unwrap();
    drop(source);
    allocator.end_pool(pool).unwrap();
    let again = memory.zeros::<f32>(N, &s1).unwrap();
    drop(again);
}

/// What a caller records itself while a pool is begun is dropped when it ends, as PyTorch does.
pub(crate) fn record_stream_during_a_capture_is_pytorchs() {
    let (reel, _memory, context) = start();
    let allocator = reel.allocator(0).unwrap();
    let stream = context.new_stream().unwrap();
    let id = StreamId::from_handle(stream.cu_stream() as u64);
    let pool = allocator.create_capture_pool();
    allocator.begin_pool(pool, Route::Streams(Box::new(move |stream| stream == id))).unwrap();
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    let block = allocator.alloc(N as u64, id).unwrap();
    // Not a stream of the device: to mark it would fail.
    block.record_stream(StreamId(0xdead_0000));
    block.free().unwrap();
    let flags = sys::CUgraphInstantiate_flags(0);
    drop(stream.end_capture(flags).unwrap());
    allocator.end_pool(pool).unwrap();
    drop(allocator.alloc(1, StreamId::DEFAULT).unwrap());
    assert_eq!(allocator.stats().active.all.current, 0);
}
