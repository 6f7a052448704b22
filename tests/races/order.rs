//! Tests slices on several streams of one GPU: uses are in order, and blocks are not reused early.

use std::{
    sync::{Arc, Barrier},
    thread,
};

use cudarc::driver::{CudaContext, CudaStream, result};
use memreel::{Reel, cuda::Memory, device::Cuda};

use super::fake;

pub(crate) const N: usize = 1 << 10;

pub(crate) fn start() -> (Reel, Memory, Arc<CudaContext>) {
    let reel = Reel::builder().device(Cuda::new(0).unwrap()).build().unwrap();
    let memory = reel.cuda(0).unwrap();
    (reel, memory, CudaContext::new(0).unwrap())
}

pub(crate) fn streams<const M: usize>(context: &Arc<CudaContext>) -> [Arc<CudaStream>; M] {
    std::array::from_fn(|_| context.new_stream().unwrap())
}

/// The driver of these tests finds what is wrong on purpose.
pub(crate) fn unordered_work_is_found() {
    let context = CudaContext::new(0).unwrap();
    let [s1, s2] = streams(&context);
    // SAFETY: nothing runs on this driver.
    unsafe {
        let memory = result::malloc_sync(1000).unwrap();
        result::memset_d8_async(memory, 0, 1000, s1.cu_stream()).unwrap();
        result::memset_d8_async(memory + 900, 0, 100, s2.cu_stream()).unwrap();
        let found = fake::violations();
        assert!(found.contains("RACE: memset") && found.contains("not ordered after memset"), "{found}");
        s2.join(&s1).unwrap();
        s1.join(&s2).unwrap();
        result::memset_d8_async(memory, 0, 1000, s1.cu_stream()).unwrap();
        s1.synchronize().unwrap();
        result::memset_d8_async(memory, 0, 1000, s2.cu_stream()).unwrap();
        fake::assert_clean();
        result::free_sync(memory).unwrap();
        assert!(result::memset_d8_async(memory, 0, 1000, s2.cu_stream()).is_err());
        assert!(fake::violations().contains("outside of all memory"));
    }
}

/// A slice is used on another stream, dropped, and its size is asked for again.
pub(crate) fn a_block_is_not_reused_early() {
    let (_reel, memory, context) = start();
    let [s1, s2] = streams(&context);
    let mut target = memory.zeros::<f32>(N, &s2).unwrap();
    let source = memory.zeros::<f32>(N, &s1).unwrap();
    s2.memcpy_dtod(&source, &mut target).unwrap();
    drop(source);
    drop(memory.zeros::<f32>(N, &s1).unwrap());
}

/// Two threads read one slice on two streams at once; then its own stream writes it.
pub(crate) fn concurrent_readers_are_all_waited_for() {
    let (_reel, memory, context) = start();
    let [own, s1, s2] = streams(&context);
    let mut targets = [memory.zeros::<f32>(N, &s1).unwrap(), memory.zeros::<f32>(N, &s2).unwrap()];
    for _ in 0..300 {
        let mut source = memory.zeros::<f32>(N, &own).unwrap();
        let barrier = Barrier::new(2);
        let [first, second] = &mut targets;
        thread::scope(|scope| {
            let read = |stream: &Arc<CudaStream>, target| {
                let (stream, source, barrier) = (stream.clone(), &source, &barrier);
                scope.spawn(move || {
                    stream.context().bind_to_thread().unwrap();
                    barrier.wait();
                    stream.memcpy_dtod(source, target).unwrap();
                });
            };
            read(&s1, first);
            read(&s2, second);
        });
        own.memset_zeros(&mut source).unwrap();
        context.synchronize().unwrap();
    }
}

/// The only stream that cudarc made goes while its work is queued, and the slice is written on its own stream.
pub(crate) fn the_last_stream_may_be_dropped() {
    let (_reel, memory, context) = start();
    let own = context.default_stream();
    let mut source = memory.zeros::<f32>(N, &own).unwrap();
    let mut target = memory.zeros::<f32>(N, &own).unwrap();
    let other = context.new_stream().unwrap();
    other.memcpy_dtod(&source, &mut target).unwrap();
    drop(other);
    own.memset_zeros(&mut source).unwrap();
}

/// The driver gives the handle of a destroyed stream to the next one.
pub(crate) fn a_reused_handle_is_another_stream() {
    let (_reel, memory, context) = start();
    let own = context.new_stream().unwrap();
    let mut source = memory.zeros::<f32>(N, &own).unwrap();
    let mut targets = Vec::new();
    for _ in 0..3 {
        let other = context.new_stream().unwrap();
        let mut target = memory.copy_from(&[0.0_f32; N], &own).unwrap();
        own.synchronize().unwrap();
        other.memcpy_dtod(&source, &mut target).unwrap();
        targets.push(target);
    }
    own.memset_zeros(&mut source).unwrap();
}

/// `CU_STREAM_PER_THREAD` is one handle for a stream of each thread.
pub(crate) fn a_per_thread_stream_is_many_streams() {
    let (_reel, memory, context) = start();
    let (own, per_thread) = (context.new_stream().unwrap(), context.per_thread_stream());
    let refused = memory.zeros::<f32>(N, &per_thread).map(drop).unwrap_err();
    assert!(refused.is_misuse() && refused.to_string().contains("new_stream"), "{refused}");
    let mut source = memory.zeros::<f32>(N, &own).unwrap();
    let mut targets: Vec<_> = (0..2).map(|_| memory.zeros::<f32>(N, &own).unwrap()).collect();
    thread::scope(|scope| {
        for target in &mut targets {
            let (source, per_thread) = (&source, &per_thread);
            scope.spawn(move || per_thread.memcpy_dtod(source, target).unwrap());
        }
    });
    own.memset_zeros(&mut source).unwrap();
    drop((source, targets));
    (0..3).for_each(|_| drop(memory.zeros::<f32>(N, &own).unwrap()));
}

/// A program that orders its streams itself still gets no block that is in use.
pub(crate) fn an_unmanaged_use_keeps_the_block() {
    let (_reel, memory, context) = start();
    // SAFETY: this function orders its streams itself.
    unsafe { context.disable_event_tracking() };
    let [own, other] = streams(&context);
    for is_known in [false, true] {
        if is_known {
            drop(memory.zeros::<f32>(1, &other).unwrap());
        }
        let source = memory.zeros::<f32>(N, &own).unwrap();
        let mut target = memory.zeros::<f32>(N, &own).unwrap();
        own.synchronize().unwrap();
        other.memcpy_dtod(&source, &mut target).unwrap();
        drop((source, target));
        let again: Vec<_> = (0..2).map(|_| memory.zeros::<f32>(N, &own).unwrap()).collect();
        context.synchronize().unwrap();
        drop(again);
    }
}
