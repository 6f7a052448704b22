//! Tests out of memory, recovery, and that all memory is returned.

use std::sync::Arc;

use cudarc::driver::{CudaContext, result};
use memreel::{
    Builder, CachingAllocator, DeviceId, Reel, Settings, StreamId,
    device::{Cuda, Device},
    recorder::{Recorder, Recording},
};

const MIB: u64 = 1 << 20;

const BOTH: [&str; 2] = ["", "expandable_segments:True"];

fn allocator(conf: &str) -> (Arc<Cuda>, CachingAllocator) {
    let device = Arc::new(Cuda::new(0).unwrap());
    let settings: Settings = conf.parse().unwrap();
    let track = Recorder::new().track(DeviceId(0));
    (device.clone(), CachingAllocator::with_settings(device, &track, settings))
}

pub(crate) fn a_full_device_is_an_error_and_recovers() {
    for conf in BOTH {
        let (device, allocator) = allocator(conf);
        let half = device.free_bytes() / 2;
        let kept = allocator.alloc(half, StreamId::DEFAULT).unwrap();
        let cached = allocator.alloc(half / 2, StreamId::DEFAULT).unwrap();
        drop(cached);
        let error = allocator.alloc(half + half / 4, StreamId::DEFAULT).unwrap_err();
        let figures = error.out_of_memory().expect("it is full");
        assert_eq!(figures.device_total_bytes, device.total_bytes());
        assert!(figures.device_free_bytes < half + 64 * MIB && figures.reserved_bytes >= half, "{error}");
        assert!(allocator.stats().num_alloc_retries > 0, "the cache was given up first");
        drop(kept);
        let now = allocator.alloc(half + half / 4, StreamId::DEFAULT).expect("the cache makes room");
        drop(now);
        println!("{conf:?}: {error}");
    }
}

pub(crate) fn everything_goes_back() {
    let _context = CudaContext::new(0).unwrap();
    let probe = Cuda::new(0).unwrap();
    // The driver keeps some memory after the first allocation of each kind.
    BOTH.into_iter().for_each(churn);
    for conf in BOTH {
        let before = probe.free_bytes();
        (0..20).for_each(|_| churn(conf));
        let after = probe.free_bytes();
        println!("{conf:?}: {before} bytes free before, {after} after");
        assert_eq!(before, after);
    }
}

fn churn(conf: &str) {
    let (_, allocator) = allocator(conf);
    let sizes = [1, 1000, 512 * 1024, 3 * MIB, 17 * MIB, 90 * MIB];
    let blocks: Vec<_> =
        sizes.iter().cycle().take(60).map(|n| allocator.alloc(*n, StreamId::DEFAULT)).collect();
    let kept: Vec<_> =
        blocks.into_iter().map(Result::unwrap).enumerate().filter(|(i, _)| i % 3 == 0).collect();
    allocator.empty_cache().unwrap();
    drop(kept);
}

/// Writes a block that spans several pages and reads its ends, then again after its range shrank and grew.
pub(crate) fn an_expandable_segment_is_usable_memory() {
    let context = CudaContext::new(0).unwrap();
    let (_, allocator) = allocator("expandable_segments:True");
    for (round, mib) in [30_u64, 130, 50, 250].into_iter().enumerate() {
        let block = allocator.alloc(mib * MIB, StreamId::DEFAULT).unwrap();
        context.bind_to_thread().unwrap();
        let (address, bytes) = (block.address().0, (mib * MIB) as usize);
        let value = u8::try_from(round + 1).unwrap();
        let mut ends = [0_u8; 2];
        // SAFETY: the block is allocated and has this size.
        unsafe {
            result::memset_d8_sync(address, value, bytes).unwrap();
            result::memcpy_dtoh_sync(&mut ends[..1], address).unwrap();
            result::memcpy_dtoh_sync(&mut ends[1..], address + mib * MIB - 1).unwrap();
        }
        assert_eq!(ends, [value; 2]);
        drop(block);
        if round % 2 == 1 {
            allocator.empty_cache().unwrap();
        }
    }
}

/// Each GPU has its own allocator, memory and trace.
pub(crate) fn every_gpu_is_a_device_of_its_own() {
    let gpus = Cuda::all().unwrap();
    let n = gpus.len();
    let builder = gpus.into_iter().fold(Reel::builder().history(Recording::all()), Builder::device);
    let reel = builder.build().unwrap();
    let mut blocks = Vec::new();
    for ordinal in 0..n {
        let bytes = (ordinal as u64 + 3) * MIB;
        let block = reel.allocator(ordinal).unwrap().alloc(bytes, StreamId::DEFAULT).unwrap();
        // Memory of a GPU can only be written in that GPU's context.
        CudaContext::new(ordinal).unwrap().bind_to_thread().unwrap();
        // SAFETY: the block is allocated and has this size.
        unsafe { result::memset_d8_sync(block.address().0, 7, usize::try_from(bytes).unwrap()).unwrap() };
        blocks.push(block);
    }
    let snapshot = reel.snapshot();
    assert_eq!(snapshot.device_traces.len(), n);
    for (ordinal, trace) in snapshot.device_traces.iter().enumerate() {
        assert_eq!((trace.len(), trace[1].size), (2, (ordinal as u64 + 3) * MIB), "device {ordinal}");
        assert_eq!(snapshot.segments[ordinal].device, ordinal.into());
    }
    println!("{n} GPUs, {} segments", snapshot.segments.len());
}
