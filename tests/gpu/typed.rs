//! Tests typed slices with cudarc's functions and kernels.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use cudarc::driver::{CudaContext, CudaStream, DevicePtr, DeviceSlice};
use memreel::{
    Reel,
    allocator::{PoolOptions, Route},
    cuda::Memory,
    device::Cuda,
    recorder::Recording,
};

use super::spin::Spin;

fn reel() -> (Reel, Memory) {
    let reel = Reel::builder().device(Cuda::new(0).unwrap()).history(Recording::all()).build().unwrap();
    let memory = reel.cuda(0).unwrap();
    (reel, memory)
}

fn address(slice: &impl DevicePtr<f32>, stream: &CudaStream) -> u64 {
    slice.device_ptr(stream).0
}

pub(crate) fn slices_are_cudarcs_arrays() {
    let (reel, memory) = reel();
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let values: Vec<f32> = (0..1000_u16).map(f32::from).collect();
    let mut slice = memory.copy_from(&values, &stream).unwrap();
    stream.memset_zeros(&mut slice.slice_mut(10..20)).unwrap();
    stream.memcpy_htod(&[7.0_f32; 3], &mut slice.slice_mut(997..)).unwrap();
    let mut expected = values.clone();
    expected[10..20].fill(0.0);
    expected[997..].fill(7.0);
    assert_eq!(stream.clone_dtoh(&slice).unwrap(), expected);
    assert_eq!(stream.clone_dtoh(&slice.slice(5..=15).slice(2..)).unwrap(), expected[7..=15]);
    let mut whole = slice.slice_mut(..);
    let (front, mut back) = whole.split_at_mut(500);
    stream.memcpy_dtod(&front, &mut back).unwrap();
    assert_eq!(stream.clone_dtoh(&slice.slice(500..)).unwrap(), expected[..500]);
    assert_eq!((slice.len(), slice.num_bytes()), (1000, 4000));

    let empty = memory.zeros::<f32>(0, &stream).unwrap();
    assert!(empty.is_empty() && address(&empty, &stream) == 0);
    let at = address(&slice, &stream);
    drop(slice);
    let again = memory.zeros::<f32>(1000, &stream).unwrap();
    assert_eq!(address(&again, &stream), at, "its block came back from the cache");
    assert_eq!(stream.clone_dtoh(&again).unwrap(), [0.0; 1000]);
    drop(again);
    assert_eq!(reel.allocator(0).unwrap().memory_allocated(), 0);
    assert!(Reel::builder().build().unwrap().cuda(0).unwrap_err().is_misuse());
}

/// Another stream reads a slice: it sees what was written, and the block is not reused before it is done.
pub(crate) fn other_streams_are_waited_for() {
    for is_managed in [true, false] {
        for is_known in [true, false] {
            other_stream(is_managed, is_known);
        }
    }
}

fn other_stream(is_managed: bool, is_known: bool) {
    let (_reel, memory) = reel();
    let context = CudaContext::new(0).unwrap();
    if !is_managed {
        // SAFETY: this function orders its streams itself.
        unsafe { context.disable_event_tracking() };
    }
    let spin = Spin::new(&context);
    let [own, other] = [context.new_stream().unwrap(), context.new_stream().unwrap()];
    if is_known {
        drop(memory.zeros::<f32>(1, &other).unwrap());
    }
    let values = vec![3.0_f32; 1 << 20];
    let slice = memory.copy_from(&values, &own).unwrap();
    if !is_managed {
        own.synchronize().unwrap();
    }
    let at = address(&slice, &own);
    let mut copy = memory.zeros::<f32>(1 << 20, &own).unwrap();
    own.synchronize().unwrap();
    // Without a guard the copy would run after the block was overwritten.
    if is_managed || is_known {
        spin.start(&other);
    }
    let stopper = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        spin.stop();
    });
    other.memcpy_dtod(&slice, &mut copy).unwrap();
    drop(slice);
    let overwriting = memory.copy_from(&vec![9.0_f32; 1 << 20], &own).unwrap();
    if is_known {
        assert_ne!(address(&overwriting, &own), at, "it was handed out while in use");
    }
    stopper.join().unwrap();
    context.synchronize().unwrap();
    assert_eq!(own.clone_dtoh(&copy).unwrap(), values, "managed {is_managed}, known {is_known}");
    if !is_managed {
        // SAFETY: restores the default, which the following tests rely on.
        unsafe { context.enable_event_tracking() };
    }
}

pub(crate) fn a_slice_keeps_its_stream_alive() {
    let (_reel, memory) = reel();
    let context = CudaContext::new(0).unwrap();
    let slice = memory.zeros::<f32>(1 << 20, &context.default_stream()).unwrap();
    for _ in 0..50 {
        let short: Arc<CudaStream> = context.new_stream().unwrap();
        let used = slice.on(&short);
        drop(used);
    }
    drop(slice);
    assert_eq!(memory.allocator().memory_allocated(), 0);
    memory.allocator().empty_cache().unwrap();
    assert_eq!(memory.allocator().memory_reserved(), 0);
}

/// Stops a kernel after a while.
fn stop_later(spin: Spin) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        spin.stop();
    })
}

/// Two threads read a slice on two busy streams at once; then its own stream overwrites it.
pub(crate) fn two_readers_are_both_waited_for() {
    let (_reel, memory) = reel();
    let context = CudaContext::new(0).unwrap();
    let spin = Spin::new(&context);
    let streams = [context.new_stream().unwrap(), context.new_stream().unwrap()];
    let own = context.new_stream().unwrap();
    let values = vec![3.0_f32; 1 << 20];
    let mut slice = memory.copy_from(&values, &own).unwrap();
    let mut copies = streams.each_ref().map(|stream| memory.zeros::<f32>(1 << 20, stream).unwrap());
    context.synchronize().unwrap();
    streams.iter().for_each(|stream| spin.start(stream));
    let stopper = stop_later(spin);
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        for (stream, copy) in streams.iter().zip(&mut copies) {
            let (slice, barrier) = (&slice, &barrier);
            scope.spawn(move || {
                barrier.wait();
                stream.memcpy_dtod(slice, copy).unwrap();
            });
        }
    });
    own.memset_zeros(&mut slice).unwrap();
    stopper.join().unwrap();
    context.synchronize().unwrap();
    for copy in &copies {
        assert_eq!(own.clone_dtoh(copy).unwrap(), values);
    }
    assert_eq!(own.clone_dtoh(&slice).unwrap(), vec![0.0; 1 << 20]);
}

/// A slice that is used on a busy stream and dropped while a pool is begun is not handed out when the pool ends.
pub(crate) fn a_begun_pool_keeps_guards() {
    let (reel, memory) = reel();
    let allocator = reel.allocator(0).unwrap();
    let context = CudaContext::new(0).unwrap();
    let spin = Spin::new(&context);
    let [own, other] = [context.new_stream().unwrap(), context.new_stream().unwrap()];
    let values = vec![3.0_f32; 1 << 20];
    let slice = memory.copy_from(&values, &own).unwrap();
    let mut copy = memory.zeros::<f32>(1 << 20, &other).unwrap();
    let pool = allocator.create_pool(PoolOptions::default());
    context.synchronize().unwrap();
    allocator.begin_pool(pool, Route::Thread).unwrap();
    spin.start(&other);
    let stopper = stop_later(spin);
    other.memcpy_dtod(&slice, &mut copy).unwrap();
    drop(slice);
    allocator.end_pool(pool).unwrap();
    let _overwriting = memory.copy_from(&vec![9.0_f32; 1 << 20], &own).unwrap();
    stopper.join().unwrap();
    context.synchronize().unwrap();
    assert_eq!(own.clone_dtoh(&copy).unwrap(), values);
}

/// The per-thread default stream is another stream on each thread.
pub(crate) fn per_thread_streams_read_a_slice() {
    let (_reel, memory) = reel();
    let context = CudaContext::new(0).unwrap();
    let (own, per_thread) = (context.new_stream().unwrap(), context.per_thread_stream());
    assert!(memory.zeros::<f32>(10, &per_thread).map(drop).unwrap_err().is_misuse());
    let values = vec![3.0_f32; 1 << 20];
    let mut slice = memory.copy_from(&values, &own).unwrap();
    let mut copies = [0; 2].map(|_| memory.zeros::<f32>(1 << 20, &own).unwrap());
    thread::scope(|scope| {
        for copy in &mut copies {
            let (slice, per_thread) = (&slice, &per_thread);
            scope.spawn(move || per_thread.memcpy_dtod(slice, copy).unwrap());
        }
    });
    own.memset_zeros(&mut slice).unwrap();
    for copy in &copies {
        assert_eq!(own.clone_dtoh(copy).unwrap(), values);
    }
}

/// A second GPU copies from a slice of the first, which is then overwritten. Passes with one GPU.
pub(crate) fn two_gpus_share_a_slice() {
    let Ok(other) = CudaContext::new(1) else { return println!("there is one GPU") };
    let (_reel, memory) = reel();
    let context = CudaContext::new(0).unwrap();
    let spin = Spin::new(&other);
    let (own, far) = (context.new_stream().unwrap(), other.new_stream().unwrap());
    let values = vec![3.0_f32; 1 << 20];
    let mut slice = memory.copy_from(&values, &own).unwrap();
    let mut copy = far.alloc_zeros::<f32>(1 << 20).unwrap();
    spin.start(&far);
    let stopper = stop_later(spin);
    far.memcpy_dtod(&slice, &mut copy).unwrap();
    own.memset_zeros(&mut slice).unwrap();
    stopper.join().unwrap();
    assert_eq!(far.clone_dtoh(&copy).unwrap(), values);
    // The default streams of both GPUs are null.
    assert_eq!(other.default_stream().clone_dtoh(&slice).unwrap(), vec![0.0; 1 << 20]);
}

/// The slices that a graph uses are dropped and the cache is emptied; the graph uses their memory all the same.
pub(crate) fn a_graph_keeps_its_memory() {
    const N: usize = 5 << 20;
    let (reel, memory) = reel();
    let allocator = reel.allocator(0).unwrap();
    let context = CudaContext::new(0).unwrap();
    let [own, other] = [context.new_stream().unwrap(), context.new_stream().unwrap()];
    let first = memory.zeros::<u8>(N, &own).unwrap();
    let elsewhere = memory.copy_from(&vec![7_u8; N], &other).unwrap();
    let (graph, result) = memory
        .capture(&own, || {
            let mut inner = memory.zeros::<u8>(N, &own)?;
            own.memcpy_dtod(&first, &mut inner).unwrap();
            let mut result = memory.zeros::<u8>(N, &own)?;
            own.memcpy_dtod(&elsewhere, &mut result).unwrap();
            Ok(result)
        })
        .unwrap();
    drop((first, elsewhere));
    allocator.empty_cache().unwrap();
    let taken: Vec<_> = (0..4).map(|_| memory.copy_from(&vec![1_u8; N], &other).unwrap()).collect();
    for _ in 0..2 {
        graph.launch().unwrap();
        // A reader on another stream is in order with the launches before and after it.
        let mut copy = memory.zeros::<u8>(N, &other).unwrap();
        other.memcpy_dtod(&result, &mut copy).unwrap();
        assert_eq!(other.clone_dtoh(&copy).unwrap(), vec![7; N]);
    }
    drop((result, taken));
    graph.launch().unwrap();
    drop(graph);
    let again = [&own, &other].map(|stream| memory.zeros::<u8>(N, stream).unwrap());
    drop(again);
    allocator.empty_cache().unwrap();
    assert_eq!(allocator.memory_reserved(), 0, "nothing is kept without the graph");
}
