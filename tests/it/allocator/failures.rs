//! A device that fails while freed blocks wait for streams: nothing is handed out too early, and no more is lost than must be.

use std::sync::Arc;

use memreel::{
    Allocation, Reel, StreamId,
    allocator::{CachingAllocator, PoolOptions, Route},
    device::Simulated,
    recorder::Recording,
    validate::{Severity, validate},
};

const MIB: u64 = 1 << 20;
const OTHER: StreamId = StreamId(7);

struct Bench {
    device: Arc<Simulated>,
    reel: Reel,
}

impl Bench {
    fn new() -> Bench {
        let device = Arc::new(Simulated::new(80 << 30));
        let reel = Reel::builder().device(device.clone()).history(Recording::all()).build().unwrap();
        Bench { device, reel }
    }

    fn allocator(&self) -> &CachingAllocator {
        self.reel.allocator(0).unwrap()
    }

    /// Blocks that another stream, which is busy, uses as well.
    fn shared_blocks(&self, n: usize) -> Vec<Allocation> {
        self.device.set_busy(OTHER);
        let blocks: Vec<Allocation> = (0..n).map(|_| self.reel.alloc(3 * MIB).unwrap()).collect();
        blocks.iter().for_each(|block| block.record_stream(OTHER));
        blocks
    }

    /// How many blocks are in use or wait for a stream.
    fn n_active(&self) -> i64 {
        self.allocator().stats().active.all.current
    }

    /// Whatever failed, what was recorded fits together.
    fn check(&self) {
        let errors: Vec<_> = validate(&self.reel.snapshot())
            .into_iter()
            .filter(|finding| finding.severity == Severity::Error)
            .collect();
        assert!(errors.is_empty(), "{errors:?}");
    }
}

#[test]
fn a_stream_that_cannot_be_marked_keeps_that_one_block() {
    let bench = Bench::new();
    let mut blocks = bench.shared_blocks(3).into_iter();
    bench.device.fail_next(1);
    let error = blocks.next().unwrap().free().unwrap_err();
    assert!(error.is_device(), "{error}");
    blocks.for_each(|block| block.free().unwrap());
    assert_eq!(bench.n_active(), 3, "two wait");
    bench.device.set_idle(OTHER);
    drop(bench.reel.alloc(MIB).unwrap());
    assert_eq!(bench.n_active(), 1, "one is kept for good");
    bench.check();
}

#[test]
fn a_question_that_fails_is_asked_again_by_the_next_request() {
    let bench = Bench::new();
    bench.shared_blocks(3).into_iter().for_each(|block| block.free().unwrap());
    bench.device.set_idle(OTHER);
    bench.device.fail_next(1);
    assert!(bench.reel.alloc(MIB).unwrap_err().is_device());
    assert_eq!(bench.n_active(), 3, "nobody knows that they are free");
    drop(bench.reel.alloc(MIB).unwrap());
    assert_eq!(bench.n_active(), 0);
    bench.check();
}

#[test]
fn waiting_that_fails_leaves_the_rest_to_the_next_time() {
    let bench = Bench::new();
    bench.shared_blocks(3).into_iter().for_each(|block| block.free().unwrap());
    bench.device.fail_next(1);
    assert!(bench.allocator().empty_cache().unwrap_err().is_device());
    assert_eq!(bench.n_active(), 3);
    bench.allocator().empty_cache().unwrap();
    assert_eq!((bench.n_active(), bench.device.n_segments()), (0, 0));
    bench.check();
}

/// Frees that were put off while requests went to a private pool are marked later.
#[test]
fn of_frees_that_were_put_off_the_one_that_fails_is_lost() {
    let bench = Bench::new();
    let allocator = bench.allocator();
    let blocks = bench.shared_blocks(4);
    let pool = allocator.create_pool(PoolOptions::default());
    allocator.begin_pool(pool, Route::Thread).unwrap();
    blocks.into_iter().for_each(|block| block.free().unwrap());
    allocator.end_pool(pool).unwrap();
    bench.device.fail_next(1);
    assert!(bench.reel.alloc(MIB).unwrap_err().is_device());
    bench.device.set_idle(OTHER);
    drop(bench.reel.alloc(MIB).unwrap());
    assert_eq!(bench.n_active(), 1, "three of four came back");
    bench.check();
}

#[test]
fn a_pool_whose_waiting_fails_is_emptied_the_next_time() {
    let bench = Bench::new();
    let allocator = bench.allocator();
    let pool = allocator.create_pool(PoolOptions::default());
    allocator.begin_pool(pool, Route::Thread).unwrap();
    let blocks = bench.shared_blocks(2);
    allocator.end_pool(pool).unwrap();
    blocks.into_iter().for_each(|block| block.free().unwrap());
    // Created and begun: held twice.
    (0..2).for_each(|_| allocator.release_pool(pool).unwrap());
    bench.device.fail_next(1);
    assert!(allocator.empty_pool(pool).unwrap_err().is_device());
    assert_eq!(bench.n_active(), 2);
    allocator.empty_pool(pool).unwrap();
    assert_eq!((bench.n_active(), bench.device.n_segments()), (0, 0));
    bench.check();
}
