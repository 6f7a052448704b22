//! Tests blocks that other streams use, streams unknown to the device, and streams under capture.

use std::sync::Arc;

use cudarc::driver::{CudaContext, sys};
use memreel::{
    CachingAllocator, DeviceId, StreamId,
    allocator::Route,
    device::{Cuda, Device},
    recorder::Recorder,
};

use super::spin::Spin;

const MIB: u64 = 1 << 20;

fn allocator() -> (Arc<CudaContext>, Arc<Cuda>, CachingAllocator) {
    let context = CudaContext::new(0).unwrap();
    let device = Arc::new(Cuda::new(0).unwrap());
    let allocator = CachingAllocator::new(device.clone(), &Recorder::new().track(DeviceId(0)));
    (context, device, allocator)
}

pub(crate) fn a_busy_stream_keeps_its_block() {
    let (context, device, allocator) = allocator();
    let spin = Spin::new(&context);
    let [one, two] = [context.new_stream().unwrap(), context.new_stream().unwrap()];
    let [first, second] = [device.use_stream(&one), device.use_stream(&two)];
    let block = allocator.alloc(8 * MIB, first).unwrap();
    let address = block.address();
    spin.start(&two);
    block.record_stream(second);
    block.free().unwrap();
    let others: Vec<_> = (0..4).map(|_| allocator.alloc(8 * MIB, first).unwrap()).collect();
    assert!(others.iter().all(|other| other.address() != address), "it was handed out while in use");
    spin.stop();
    two.synchronize().unwrap();
    let again = allocator.alloc(8 * MIB, first).unwrap();
    assert_eq!(again.address(), address, "it is free as soon as the stream has passed");
}

pub(crate) fn an_unknown_stream_is_an_error() {
    let (context, device, allocator) = allocator();
    let unknown = StreamId(0xdead_0000);
    let error = device.mark(unknown).unwrap_err();
    assert!(error.is_device() && error.to_string().contains("use_stream"), "{error}");
    let block = allocator.alloc(MIB, StreamId::DEFAULT).unwrap();
    block.record_stream(unknown);
    assert!(block.free().unwrap_err().is_device());
    assert!(device.is_passed(memreel::device::Mark(77)).is_err(), "a mark that was never made");
    drop(context);
}

pub(crate) fn a_capture_allocates_from_its_pool() {
    let (context, device, allocator) = allocator();
    let stream = context.new_stream().unwrap();
    let id = device.use_stream(&stream);
    let pool = allocator.create_capture_pool();
    allocator.begin_pool(pool, Route::Streams(Box::new(move |stream| stream == id))).unwrap();
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    let block = allocator.alloc(30 * MIB, id).expect("memory may be asked for while a graph is captured");
    assert!(device.mark(id).unwrap_err().to_string().contains("captured"));
    block.record_stream(StreamId::DEFAULT);
    block.free().expect("it is put off, not marked");
    let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    stream.end_capture(flags).expect("the capture was not disturbed");
    allocator.end_pool(pool).unwrap();
    drop(allocator.alloc(MIB, StreamId::DEFAULT).unwrap());
    let pools = allocator.stats();
    assert_eq!(pools.active.all.current, 0, "what was put off is taken up");
    allocator.release_pool(pool).unwrap();
    allocator.release_pool(pool).unwrap();
    allocator.empty_cache().unwrap();
    assert_eq!(allocator.memory_reserved(), 0);
}
