//! Random programs under random settings: the allocator against the naive `model`, request by request.
//!
//! A program is a few dozen requests: allocations, frees, recorded streams,
//! settings, limits and pools that change on the way, a device that refuses.
//! After each request the allocator must have done what the model did, and
//! what it says of itself must hold by plain counting. Program `i` is made
//! from the seed `MEMREEL_SEED + i` (2011 unless set); a failure is shrunk
//! and ends with the line that runs it again, such as
//! `MEMREEL_SEED=2345 MEMREEL_PROGRAMS=1 cargo test --test it programs`.
//! `MEMREEL_PROGRAMS=100000` runs more of them.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use memreel::{
    Action, Allocation, CachingAllocator, DeviceId, PoolId, StreamId,
    allocator::{MemoryStats, PoolOptions, Route, Settings},
    device::{Device, Simulated},
    integrate::Inventory,
    recorder::{Context, Recorder, Recording},
    snapshot::{Dialect, Snapshot, Value, collect},
    validate::{Severity, validate},
};
use proptest::{
    prelude::*,
    test_runner::{RngSeed, TestCaseError, TestError, TestRunner},
};

use super::{
    invariants::{Checked, check_live, check_pairs, check_recounts, check_tiling, larger, of_pools, stretch},
    model::{Model, Refused, Stretch, Sums, Told},
    program::{Program, Request, program},
};

const MIB: u64 = 1 << 20;

/// The allocator and the model side by side.
struct Bench {
    device: Arc<Simulated>,
    recorder: Recorder,
    allocator: CachingAllocator,
    model: Model,
    live: Vec<Allocation>,
    pools: Vec<PoolId>,
    peaks: [Sums; 3],
}

impl Bench {
    fn new(program: &Program) -> Bench {
        let settings: Settings = program.conf.parse().unwrap_or_default();
        let device = Arc::new(Simulated::new(program.device_bytes));
        let recorder = Recorder::new();
        recorder.record_history(&Recording::all().context(Context::None));
        let track = recorder.track(DeviceId(0));
        let allocator = CachingAllocator::with_settings(device.clone(), &track, settings.clone());
        let model = Model::new(program.device_bytes, settings);
        Bench { device, recorder, allocator, model, live: vec![], pools: vec![], peaks: Default::default() }
    }

    fn run(&mut self, request: &Request) -> Checked {
        match *request {
            Request::Alloc { bytes, stream } => self.alloc(bytes, StreamId::from_handle(stream))?,
            Request::Free(i) if !self.live.is_empty() => {
                let block = self.live.swap_remove(i % self.live.len());
                self.model.free(block.address().0);
                block.free().unwrap();
            }
            Request::RecordStream(i, stream) if !self.live.is_empty() => {
                let block = &self.live[i % self.live.len()];
                self.model.record_stream(block.address().0, StreamId::from_handle(stream));
                block.record_stream(StreamId::from_handle(stream));
            }
            Request::Free(_) | Request::RecordStream(..) => {}
            Request::EmptyCache => {
                self.model.empty_cache(PoolId::DEFAULT);
                self.allocator.empty_cache().unwrap();
            }
            Request::Busy(stream) => {
                self.both_devices(|device| device.set_busy(StreamId::from_handle(stream)))
            }
            Request::Idle(stream) => {
                self.both_devices(|device| device.set_idle(StreamId::from_handle(stream)))
            }
            Request::Refuse(n) => self.both_devices(|device| device.refuse_next(n)),
            Request::Settings(ref text) => {
                let updated = self.model.settings.updated(text);
                prop_assert_eq!(self.allocator.update_settings(text).is_ok(), updated.is_ok());
                self.model.settings = updated.unwrap_or(self.model.settings.clone());
            }
            Request::Limit(bytes) => {
                self.allocator.set_memory_limit(bytes);
                self.model.limit = bytes;
            }
            Request::Fraction(fraction) => {
                self.allocator.set_memory_fraction(fraction).unwrap();
                self.model.set_fraction(fraction);
                prop_assert_eq!(self.allocator.memory_limit(), self.model.limit);
            }
            ref pools => self.run_on_pools(pools)?,
        }
        Ok(())
    }

    fn both_devices(&self, act: impl Fn(&Simulated)) {
        act(&self.device);
        act(&self.model.device);
    }

    fn alloc(&mut self, bytes: u64, stream: StreamId) -> Checked {
        let expected = self.model.alloc(bytes, stream);
        match self.allocator.alloc(bytes, stream) {
            Ok(block) => {
                prop_assert_eq!(Some(block.address().0), expected, "best fit for {} bytes", bytes);
                self.live.push(block);
            }
            Err(error) => {
                prop_assert!(error.is_out_of_memory(), "{}", error);
                prop_assert_eq!(None, expected);
            }
        }
        Ok(())
    }

    fn run_on_pools(&mut self, request: &Request) -> Checked {
        // The ids beside those that exist: unknown ones must be refused.
        let pool = |i: usize| *self.pools.get(i % (self.pools.len() + 1)).unwrap_or(&PoolId::of_user(99));
        let agree = |ours: memreel::Result<()>, theirs: Result<(), Refused>| {
            prop_assert_eq!(ours.is_ok(), theirs.is_ok());
            Ok(())
        };
        match *request {
            Request::CreatePool(options) => {
                let id = self.allocator.create_pool(options);
                prop_assert_eq!(self.model.create_pool(false, options), id);
                self.pools.push(id);
            }
            Request::CreateCapturePool => {
                let id = self.allocator.create_capture_pool();
                prop_assert_eq!(self.model.create_pool(true, PoolOptions::default()), id);
                self.pools.push(id);
            }
            Request::BeginPool(i, only) => {
                let route = only.map_or(Route::Thread, |only| {
                    Route::Streams(Box::new(move |stream| stream == StreamId::from_handle(only)))
                });
                agree(self.allocator.begin_pool(pool(i), route), self.model.begin(pool(i), only))?;
            }
            Request::EndPool(i) => agree(self.allocator.end_pool(pool(i)), self.model.end(pool(i)))?,
            Request::ReleasePool(i) => {
                agree(self.allocator.release_pool(pool(i)), self.model.release_pool(pool(i)))?;
            }
            Request::EmptyPool(i) => {
                self.model.empty_cache(pool(i));
                self.allocator.empty_pool(pool(i)).unwrap();
            }
            _ => unreachable!("the others do not concern pools"),
        }
        Ok(())
    }

    // What must hold after every request.

    fn check(&mut self) -> Checked {
        let mut segments = Vec::new();
        self.allocator.inspect(&mut |seen| segments = seen.to_vec());
        check_tiling(&segments)?;
        check_live(&segments, &self.live)?;
        let ours: Vec<Stretch> = segments.iter().map(stretch).collect();
        prop_assert_eq!(ours, self.model.stretches());
        let stats = self.allocator.stats();
        check_recounts(&stats, &segments)?;
        self.check_sums(&stats)?;
        self.check_counters(&stats)
    }

    /// Statistics are recounts of the model; peaks are the largest of them.
    fn check_sums(&mut self, stats: &MemoryStats) -> Checked {
        for (i, expected) in self.model.sums().into_iter().enumerate() {
            prop_assert_eq!(of_pools(stats, i, |stat| stat.current), expected);
            let peaks = &mut self.peaks[i];
            *peaks = larger(*peaks, expected);
            let mut seen = of_pools(stats, i, |stat| stat.peak);
            prop_assert_eq!(larger(seen, *peaks), seen, "a peak is below what was seen");
            // Only the moments between requests were seen; these may be higher within one.
            seen.reserved_bytes = peaks.reserved_bytes;
            seen.inactive_split = peaks.inactive_split;
            seen.inactive_split_bytes = peaks.inactive_split_bytes;
            prop_assert_eq!(seen, *peaks);
        }
        prop_assert_eq!(stats.reserved_bytes.all.peak.cast_unsigned(), self.model.reserved_peak);
        prop_assert_eq!(stats.oversize_allocations.current, self.model.oversize_allocations);
        prop_assert_eq!(stats.oversize_segments.current, self.model.oversize_segments);
        Ok(())
    }

    fn check_counters(&self, stats: &MemoryStats) -> Checked {
        let ours = [
            stats.num_alloc_retries,
            stats.num_ooms,
            stats.num_sync_all_streams,
            stats.num_device_alloc,
            stats.num_device_free,
        ];
        let model = &self.model;
        let theirs =
            [model.n_retries, model.n_ooms, model.n_syncs, model.n_device_allocs, model.n_device_frees];
        prop_assert_eq!(ours, theirs, "retries, ooms, syncs, device allocs and frees");
        Ok(())
    }

    /// The trace is the model's, and a valid history; its sums are the statistics'.
    fn check_trace(&self) -> Checked {
        let snapshot = collect(&self.recorder, [&self.allocator], Dialect::Torch2_15);
        let mut findings = validate(&snapshot);
        findings.retain(|finding| finding.severity == Severity::Error);
        prop_assert!(findings.is_empty(), "{:?}", findings);
        let events = events(&snapshot);
        check_pairs(&events)?;
        let flows =
            |action: &'static str| events.iter().filter(move |event| event.0 == action).map(|event| event.2);
        let stats = self.allocator.stats();
        let n = |action| flows(action).count() as i64;
        prop_assert_eq!(stats.allocation.all.allocated, n("alloc"));
        prop_assert_eq!(stats.allocation.all.freed, n("free_requested"));
        prop_assert_eq!(stats.active.all.freed, n("free_completed"));
        prop_assert_eq!(stats.segment.all.allocated, n("segment_alloc"));
        prop_assert_eq!(stats.requested_bytes.all.allocated.cast_unsigned(), flows("alloc").sum::<u64>());
        let reserved = flows("segment_alloc").chain(flows("segment_map")).sum::<u64>();
        prop_assert_eq!(stats.reserved_bytes.all.allocated.cast_unsigned(), reserved);
        prop_assert_eq!(settled(events), settled(self.model.events.clone()));
        Ok(())
    }

    fn check_nothing_is_left(self) -> Checked {
        let Bench { device, allocator, .. } = self;
        drop(allocator);
        prop_assert_eq!(device.n_segments(), 0, "every segment and range went back");
        prop_assert_eq!(device.free_bytes(), device.total_bytes());
        Ok(())
    }
}

/// The trace as the model tells it, without the snapshots.
fn events(snapshot: &Snapshot) -> Vec<Told> {
    let number = |value: &Value| value.as_int().unwrap().cast_unsigned();
    let told = |entry: &memreel::snapshot::TraceEntry| {
        let pool = match snapshot.shapes.get(entry.shape).value("pool_id") {
            Some(Value::Tuple(id)) => PoolId { graph: number(&id[0]), user: number(&id[1]) },
            other => panic!("no pool id but {other:?}"),
        };
        let action = entry.action.unwrap().name();
        (action, entry.address.0, entry.size, entry.stream.handle(), pool)
    };
    let trace = snapshot.device_traces[0].iter();
    trace.filter(|entry| entry.action != Some(Action::Snapshot)).map(told).collect()
}

/// Frees that complete together do so in the order of a hash table's slots,
/// and so do private pools that are released together; `worked` and `scenario`
/// hold that order. Here each group is sorted.
fn settled(mut events: Vec<Told>) -> Vec<Told> {
    let group = |event: &Told| match event.0 {
        "free_completed" => 1,
        "segment_free" | "segment_unmap" => 2,
        _ => 0,
    };
    for run in events.chunk_by_mut(|a, b| group(a) == group(b)) {
        match group(&run[0]) {
            1 => run.sort_unstable(),
            2 => run.sort_by_key(|event| event.4),
            _ => {}
        }
    }
    events
}

fn check_program(program: &Program) -> Checked {
    let mut bench = Bench::new(program);
    let run = AssertUnwindSafe(|| {
        for request in &program.requests {
            bench.run(request)?;
            bench.check()?;
        }
        bench.check_trace()?;
        while let Some(block) = bench.live.pop() {
            block.free().unwrap();
        }
        Ok(())
    });
    match catch_unwind(run) {
        Ok(Ok(())) => {
            let end = AssertUnwindSafe(|| bench.check_nothing_is_left());
            catch_unwind(end).unwrap_or_else(|_| Err(TestCaseError::fail("panicked while it was dropped")))
        }
        // What went wrong once may panic again when it is dropped, and would
        // end the test before the program is shrunk; so it is left as it is.
        Ok(failure) => {
            std::mem::forget(bench);
            failure
        }
        Err(_) => {
            std::mem::forget(bench);
            Err(TestCaseError::fail("the allocator panicked"))
        }
    }
}

/// One program; `Err` is the smallest that fails, and why.
fn run_seed(seed: u64, programs: &impl Strategy<Value = Program>) -> Result<(), String> {
    let config = ProptestConfig {
        cases: 1,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    };
    let outcome = TestRunner::new(config).run(programs, |program| check_program(&program));
    outcome.map_err(|error| {
        let told = match error {
            TestError::Fail(why, program) => format!("{why}\nin the smallest program: {program:#?}"),
            abort @ TestError::Abort(_) => abort.to_string(),
        };
        let again = format!("MEMREEL_SEED={seed} MEMREEL_PROGRAMS=1 cargo test --test it programs");
        format!("{told}\nrun it again with: {again}")
    })
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn ten_thousand_programs_do_as_the_model_does() {
    let first = from_environment("MEMREEL_SEED", 2011);
    let end = first + from_environment("MEMREEL_PROGRAMS", 10_000);
    let (next, has_failed) = (AtomicU64::new(first), AtomicBool::new(false));
    let work = || {
        let programs = program();
        while !has_failed.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                break;
            }
            run_seed(seed, &programs).inspect_err(|_| has_failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let outcomes: Vec<Result<(), String>> = std::thread::scope(|threads| {
        let running: Vec<_> = (0..n_threads).map(|_| threads.spawn(work)).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    if let Some(failure) = outcomes.into_iter().find_map(Result::err) {
        panic!("{failure}");
    }
}

/// What random programs found wrong once, in their smallest form.
#[test]
fn programs_that_failed_before_do_as_the_model_does() {
    use Request::{Alloc, CreatePool, EmptyCache, EmptyPool, EndPool, Free, RecordStream, ReleasePool};
    let check = |what: &str, device_bytes, conf: &str, requests: Vec<Request>| {
        let program = Program { device_bytes, conf: conf.into(), requests };
        check_program(&program).unwrap_or_else(|why| panic!("{what}: {why}"));
    };
    let alloc = |bytes, stream| Alloc { bytes, stream };
    let create = || CreatePool(PoolOptions::default());
    let begin = |only| Request::BeginPool(0, only);

    let requests = vec![alloc(MIB + 1, 1), alloc(1, 0), alloc(MIB + 1, 0)];
    check("a range that got no memory stayed reserved", 40 * MIB, "expandable_segments:True", requests);

    let conf = "expandable_segments:True,large_segment_size_mb:11";
    check("pages were no multiple of 2 MiB", 40 * MIB, conf, vec![alloc(MIB + 1, 0)]);

    let requests =
        vec![create(), begin(Some(1)), ReleasePool(0), ReleasePool(0), EmptyCache, alloc(1, 2), alloc(1, 1)];
    check("a pool was erased while requests were routed to it", 40 * MIB, "", requests);

    let uses = vec![create(), begin(None), alloc(1, 2), RecordStream(0, 0), Free(0)];
    let empties = vec![EndPool(0), ReleasePool(0), ReleasePool(0), EmptyPool(0)];
    check("a deferred free was not taken up", 40 * MIB, "", [uses, empties].concat());

    // One growth of three pages (60 MiB), and another elsewhere; what became
    // of the first goes back in two parts, and the count of both is zero.
    let grown = vec![create(), begin(None), alloc(60 * MIB, 0), alloc(1, 0), Free(0)];
    let cut = vec![alloc(20 * MIB, 0), alloc(20 * MIB, 0), alloc(20 * MIB, 0), Free(3), Free(1)];
    let end = vec![EndPool(0), ReleasePool(0), ReleasePool(0), EmptyCache, Free(0), Free(0), EmptyCache];
    let conf = "expandable_segments:True";
    check("a pool with memory was erased", 400 * MIB, conf, [grown, cut, end].concat());
}
