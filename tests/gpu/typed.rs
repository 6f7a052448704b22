//! Tests typed slices with cudarc's functions and kernels.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DevicePtr, DeviceSlice};
use memreel::{Reel, cuda::Memory, device::Cuda, recorder::History};

use crate::spin::Spin;

fn reel() -> (Reel, Memory) {
    let reel = Reel::builder().device(Cuda::new(0).unwrap()).history(History::all()).build().unwrap();
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
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
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
