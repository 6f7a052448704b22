//! Calls of the device that take long: other threads use cached blocks meanwhile, and nothing is lost between.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use memreel::{
    Action, Allocation, CachingAllocator, PoolId, Reel, Snapshot, StreamId,
    allocator::{PoolOptions, Route},
    device::Simulated,
    integrate::{FrameSource, SourceFrame},
    recorder::{Context, Recording},
    validate::{Severity, validate},
};

use super::hooked::Hooked;
use crate::own_process;

const MIB: u64 = 1 << 20;
const LIMIT: Duration = Duration::from_secs(60);
const OWN: StreamId = StreamId(1);
const OTHER: StreamId = StreamId(2);

#[derive(Clone)]
struct Bench {
    memory: Arc<Simulated>,
    device: Arc<Hooked<Arc<Simulated>>>,
    reel: Reel,
}

impl Bench {
    fn new(total_bytes: u64) -> Bench {
        let memory = Arc::new(Simulated::new(total_bytes));
        let device = Arc::new(Hooked::new(memory.clone()));
        let history = Recording::all().context(Context::None);
        let reel = Reel::builder().device(device.clone()).history(history).build().unwrap();
        Bench { memory, device, reel }
    }

    fn allocator(&self) -> &CachingAllocator {
        self.reel.allocator(0).unwrap()
    }

    fn alloc(&self, bytes: u64, stream: StreamId) -> Allocation {
        self.allocator().alloc(bytes, stream).unwrap()
    }

    /// Runs `meanwhile` on another thread at the first call of a method; the call returns after it.
    fn during(&self, method: &'static str, meanwhile: impl Fn(&Bench) + Send + Sync + 'static) {
        let (bench, is_done) = (self.clone(), AtomicBool::new(false));
        self.device.set_hook(move |call| {
            if call == method && !is_done.swap(true, Ordering::Relaxed) {
                thread::scope(|scope| scope.spawn(|| meanwhile(&bench)).join()).unwrap();
            }
        });
    }

    fn panic_during(&self, method: &'static str) {
        let is_done = AtomicBool::new(false);
        self.device.set_hook(move |call| {
            assert!(call != method || is_done.swap(true, Ordering::Relaxed), "the device panics");
        });
    }

    /// Without blocks, all memory and all marks go back.
    fn end(self) {
        self.device.unhook();
        check(&self.reel.snapshot());
        self.memory.synchronize();
        self.allocator().empty_cache().unwrap();
        check(&self.reel.snapshot());
        assert_eq!(self.allocator().stats().active.all.current, 0);
        assert_eq!((self.memory.n_segments(), self.device.n_marks()), (0, 0));
    }
}

/// The events and the segments of a snapshot are of one moment.
fn check(snapshot: &Snapshot) {
    let (mut in_use, mut reserved) = (0, 0);
    for entry in &snapshot.device_traces[0] {
        match entry.action {
            Some(Action::Alloc) => in_use += entry.size,
            Some(Action::FreeCompleted) => in_use -= entry.size,
            Some(Action::SegmentAlloc | Action::SegmentMap) => reserved += entry.size,
            Some(Action::SegmentFree | Action::SegmentUnmap) => reserved -= entry.size,
            _ => {}
        }
    }
    let sum = |of: fn(&memreel::snapshot::Segment) -> u64| snapshot.segments.iter().map(of).sum::<u64>();
    assert_eq!(in_use, sum(|segment| segment.requested_size));
    assert_eq!(reserved, sum(|segment| segment.total_size));
    let mut findings = validate(snapshot);
    findings.retain(|finding| finding.severity == Severity::Error);
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn no_call_of_the_device_keeps_other_threads_from_cached_blocks() {
    let name = "no_call_of_the_device_keeps_other_threads_from_cached_blocks";
    own_process::run(module_path!(), name, LIMIT, || {
        let bench = Bench::new(200 * MIB);
        let spare: Vec<Allocation> = (0..100).map(|_| bench.alloc(512, OWN)).collect();
        let (spare, seen) = (Arc::new(Mutex::new(spare)), Arc::new(Mutex::new(BTreeSet::new())));
        let (other, spare_too, seen_too) = (bench.clone(), spare.clone(), seen.clone());
        bench.device.set_hook(move |call| {
            seen_too.lock().unwrap().insert(call);
            let work = || {
                drop(spare_too.lock().unwrap().pop());
                drop(other.alloc(1000, OWN));
                check(&other.reel.snapshot());
            };
            thread::scope(|scope| scope.spawn(work).join()).unwrap();
        });
        for conf in ["expandable_segments:False", "expandable_segments:True"] {
            bench.allocator().update_settings(conf).unwrap();
            let block = bench.alloc(30 * MIB, OWN);
            bench.memory.set_busy(OTHER);
            block.record_stream(OTHER);
            drop(block);
            bench.allocator().empty_cache().unwrap();
            bench.memory.set_idle(OTHER);
            assert!(bench.allocator().alloc(500 * MIB, OWN).unwrap_err().is_out_of_memory());
        }
        let expected = [
            "free_bytes",
            "range_map",
            "range_release",
            "range_reserve",
            "range_unmap",
            "segment_alloc",
            "segment_free",
            "wait",
        ];
        assert!(seen.lock().unwrap().iter().eq(&expected), "{seen:?}");
        spare.lock().unwrap().clear();
        bench.end();
    });
}

#[test]
fn a_request_waits_for_memory_that_another_thread_is_giving_back() {
    let bench = Bench::new(100 * MIB);
    drop(bench.alloc(100 * MIB, OWN));
    thread::scope(|scope| {
        let (begins, began) = std::sync::mpsc::channel();
        bench.device.set_hook(move |call| {
            if call == "segment_free" {
                begins.send(()).unwrap();
                thread::sleep(Duration::from_millis(50));
            }
        });
        let allocator = bench.allocator();
        scope.spawn(move || allocator.empty_cache().unwrap());
        began.recv().unwrap();
        drop(bench.alloc(100 * MIB, OTHER));
    });
    assert_eq!(bench.allocator().stats().num_ooms, 0);
    bench.end();
}

#[test]
fn a_block_that_is_freed_during_a_call_serves_the_request() {
    // `segment_alloc` finds the device full; `free_bytes` is asked for the figures of the error.
    for method in ["segment_alloc", "free_bytes"] {
        let bench = Bench::new(100 * MIB);
        let held = bench.alloc(100 * MIB, OWN);
        let (address, held) = (held.address(), Mutex::new(Some(held)));
        bench.during(method, move |_| drop(held.lock().unwrap().take()));
        assert_eq!(bench.alloc(60 * MIB, OWN).address(), address, "{method}");
        let stats = bench.allocator().stats();
        assert_eq!((stats.num_ooms, stats.num_device_alloc), (0, 1), "{method}");
        bench.end();
    }
}

#[test]
fn free_pages_that_another_thread_takes_are_replaced() {
    let bench = Bench::new(400 * MIB);
    bench.allocator().update_settings("expandable_segments:True").unwrap();
    let first = bench.alloc(20 * MIB, OWN);
    let address = first.address();
    drop(first);
    let taken = Arc::new(Mutex::new(None));
    let taken_too = taken.clone();
    bench.during("range_map", move |bench| {
        *taken_too.lock().unwrap() = Some(bench.alloc(20 * MIB, OWN));
    });
    let block = bench.alloc(50 * MIB, OWN);
    assert_eq!(taken.lock().unwrap().as_ref().unwrap().address(), address);
    assert_eq!(block.address(), address.offset(20 * MIB), "the run is mapped further");
    assert_eq!(bench.allocator().memory_reserved(), 80 * MIB);
    bench.device.unhook();
    drop((block, taken.lock().unwrap().take()));
    bench.end();
}

#[test]
fn a_mark_that_another_thread_finds_passed_is_forgotten_after_the_wait() {
    for fails in [false, true] {
        let bench = Bench::new(400 * MIB);
        let _cached = bench.alloc(1000, OWN);
        bench.memory.set_busy(OTHER);
        let blocks: Vec<Allocation> = (0..3).map(|_| bench.alloc(3 * MIB, OWN)).collect();
        blocks.iter().for_each(|block| block.record_stream(OTHER));
        drop(blocks);
        bench.during("wait", move |bench| {
            bench.memory.set_idle(OTHER);
            drop(bench.alloc(1000, OWN));
            assert_eq!(bench.allocator().stats().active.all.current, 1, "all three are passed");
            bench.memory.fail_next(u32::from(fails));
        });
        assert_eq!(bench.allocator().empty_cache().is_err(), fails);
        assert_eq!(bench.device.n_marks(), 0);
        drop(_cached);
        bench.end();
    }
}

#[test]
fn frees_that_are_added_during_a_wait_are_completed_by_the_next() {
    let bench = Bench::new(400 * MIB);
    bench.memory.set_busy(OTHER);
    let [waited, added] = [3 * MIB; 2].map(|bytes| bench.alloc(bytes, OWN));
    [&waited, &added].into_iter().for_each(|block| block.record_stream(OTHER));
    drop(waited);
    let added = Mutex::new(Some(added));
    bench.during("wait", move |_| drop(added.lock().unwrap().take()));
    bench.allocator().empty_cache().unwrap();
    assert_eq!((bench.allocator().stats().active.all.current, bench.device.n_marks()), (1, 1));
    bench.end();
}

/// What a filter holds is dropped with it, and may be a block.
#[test]
fn a_filter_may_hold_a_block() {
    own_process::run(module_path!(), "a_filter_may_hold_a_block", LIMIT, || {
        let bench = Bench::new(400 * MIB);
        let allocator = bench.allocator();
        let pool = allocator.create_pool(PoolOptions::default());
        for id in [pool, PoolId::of_user(99)] {
            let block = bench.alloc(1000, OWN);
            let filter = move |stream| stream == block.stream();
            let begun = allocator.begin_pool(id, Route::Streams(Box::new(filter)));
            assert_eq!(begun.is_ok(), id == pool);
        }
        allocator.end_pool(pool).unwrap();
        (0..2).for_each(|_| allocator.release_pool(pool).unwrap());
        bench.end();
    });
}

#[test]
fn default_pools_are_kept_when_a_pool_begins_during_the_wait() {
    let bench = Bench::new(400 * MIB);
    let pool = bench.allocator().create_pool(PoolOptions::default());
    bench.memory.set_busy(OTHER);
    let block = bench.alloc(3 * MIB, OWN);
    block.record_stream(OTHER);
    drop(block);
    bench.during("wait", move |bench| {
        bench.allocator().begin_pool(pool, Route::Thread).unwrap();
    });
    bench.allocator().empty_cache().unwrap();
    assert_eq!(bench.allocator().stats().num_device_free, 0);
    bench.allocator().end_pool(pool).unwrap();
    bench.end();
}

#[test]
fn a_device_that_panics_while_it_gives_back_loses_only_that_segment() {
    let bench = Bench::new(400 * MIB);
    drop([30 * MIB; 3].map(|bytes| bench.alloc(bytes, OWN)));
    bench.panic_during("segment_free");
    let empty = || bench.allocator().empty_cache();
    assert!(catch_unwind(AssertUnwindSafe(empty)).is_err());
    assert_eq!((bench.allocator().memory_reserved(), bench.memory.n_segments()), (0, 3));
    check(&bench.reel.snapshot());
    drop(bench.alloc(1000, OWN));
    assert_eq!(bench.memory.n_segments(), 2, "the two that were left went back first");
    bench.device.unhook();
    bench.allocator().empty_cache().unwrap();
    assert_eq!(bench.memory.n_segments(), 1, "the one of the panic");
}

#[test]
fn a_device_that_panics_while_it_waits_or_grows_leaves_the_allocator_in_order() {
    let bench = Bench::new(400 * MIB);
    bench.memory.set_busy(OTHER);
    let block = bench.alloc(3 * MIB, OWN);
    block.record_stream(OTHER);
    drop(block);
    bench.panic_during("wait");
    assert!(catch_unwind(AssertUnwindSafe(|| bench.allocator().empty_cache())).is_err());
    assert_eq!(bench.allocator().stats().active.all.current, 1);
    for (conf, method) in [
        ("expandable_segments:False", "segment_alloc"),
        ("expandable_segments:True", "range_reserve"),
        ("expandable_segments:True", "range_map"),
    ] {
        bench.allocator().update_settings(conf).unwrap();
        bench.panic_during(method);
        let grow = || bench.allocator().alloc(50 * MIB, OWN);
        assert!(catch_unwind(AssertUnwindSafe(grow)).is_err(), "{method}");
        check(&bench.reel.snapshot());
        drop(bench.alloc(50 * MIB, OWN));
        bench.allocator().empty_cache().unwrap();
    }
    bench.end();
}

/// The thread that ends the pool leaves the request without it; the memory is for the default pool.
#[test]
fn a_pool_that_ends_during_a_call_serves_no_request() {
    let bench = Bench::new(100 * MIB);
    let allocator = bench.allocator();
    drop(bench.alloc(100 * MIB, OWN));
    let pool = allocator.create_pool(PoolOptions::default());
    allocator.begin_pool(pool, Route::Thread).unwrap();
    bench.during("segment_alloc", move |bench| {
        bench.allocator().end_pool(pool).unwrap();
        (0..2).for_each(|_| bench.allocator().release_pool(pool).unwrap());
    });
    let block = bench.alloc(60 * MIB, OWN);
    let address = block.address();
    let other = allocator.create_pool(PoolOptions::default());
    drop(block);
    assert_eq!(bench.alloc(60 * MIB, OWN).address(), address);
    allocator.release_pool(other).unwrap();
    bench.end();
}

/// An interpreter that lets another thread allocate before it returns its frames.
#[derive(Default)]
struct Interpreter {
    reel: OnceLock<Reel>,
    is_waiting: AtomicBool,
}

impl FrameSource for Interpreter {
    fn capture(&self, _words: &mut [usize]) -> usize {
        if let Some(reel) = self.reel.get()
            && !self.is_waiting.swap(true, Ordering::Relaxed)
        {
            thread::scope(|scope| scope.spawn(|| drop(reel.alloc(512).unwrap())).join()).unwrap();
            self.is_waiting.store(false, Ordering::Relaxed);
        }
        0
    }

    fn name(&self, _word: usize) -> Vec<SourceFrame> {
        Vec::new()
    }
}

/// The request's own stack is not captured, but those of its segments and of its failure are.
#[test]
fn a_filtered_request_captures_its_stack_under_no_lock() {
    let name = "a_filtered_request_captures_its_stack_under_no_lock";
    own_process::run(module_path!(), name, LIMIT, || {
        let history = Recording::all().min_size(200 * MIB);
        let device = Simulated::new(100 * MIB);
        let reel = Reel::builder().device(device).history(history).build().unwrap();
        let source = Arc::new(Interpreter::default());
        reel.recorder().set_frame_source(source.clone());
        drop(reel.alloc(512).unwrap());
        assert!(source.reel.set(reel.clone()).is_ok());
        for conf in ["expandable_segments:False", "expandable_segments:True"] {
            reel.allocator(0).unwrap().update_settings(conf).unwrap();
            drop(reel.alloc(30 * MIB).unwrap());
            assert!(reel.alloc(110 * MIB).unwrap_err().is_out_of_memory());
            reel.empty_cache().unwrap();
            drop(reel.alloc(512).unwrap());
        }
        let snapshot = reel.snapshot();
        let trace = &snapshot.device_traces[0];
        assert!(trace.iter().all(|entry| entry.action != Some(Action::Alloc)));
        for action in [Action::SegmentAlloc, Action::SegmentMap, Action::SegmentFree, Action::Oom] {
            let mut entries = trace.iter().filter(|entry| entry.action == Some(action)).peekable();
            assert!(entries.peek().is_some(), "{action:?}");
            assert!(entries.all(|entry| snapshot.frames(entry.stack).next().is_some()), "{action:?}");
        }
    });
}
