//! Programs of operations on the allocators of two devices, made from bytes; after each one everything must agree.
//!
//! The fuzz target `allocator_ops` runs any bytes, and `bytes` runs fixed ones. Three bytes are an operation: what
//! it is, with its device and stream, and two numbers. There are requests, frees, raw blocks, names, streams with
//! marks, private pools of every route, limits, settings that change, devices that refuse or fail.
#![forbid(unsafe_code)]

use std::sync::Arc;

use memreel::{
    Address, Allocation, BlockState, CachingAllocator, PoolId, Reel, StreamId,
    allocator::{PoolOptions, Route},
    device::{Device, Limit, Simulated},
    integrate::{Inventory, InventorySegment},
    recorder::{Context, Recording},
    validate::{Rule, Severity, validate},
};

const MIB: u64 = 1 << 20;
const BUDGET_BYTES: u64 = 300 * MIB;
/// More operations add time, not kinds of states.
const MOST_OPERATIONS: usize = 2000;

const SETTINGS: [&str; 12] = [
    "",
    "expandable_segments:True",
    "expandable_segments:False",
    "max_split_size_mb:21",
    "expandable_segments:True,max_split_size_mb:64",
    "roundup_power2_divisions:8",
    "roundup_power2_divisions:[1:8,2:4,64:2,256:1,>:4]",
    "garbage_collection_threshold:0.3",
    "garbage_collection_threshold:0.9,max_split_size_mb:25",
    "large_segment_size_mb:25",
    "max_non_split_rounding_mb:40,max_split_size_mb:20",
    "this is not a setting",
];

/// One device with its allocator, and what the program has there.
struct Side {
    device: Arc<Simulated>,
    allocator: CachingAllocator,
    live: Vec<Allocation>,
    /// Address, requested bytes and block bytes.
    raw: Vec<(Address, u64)>,
    pools: Vec<PoolId>,
    /// Whether the device was made to fail, so that blocks may be lost.
    has_failed: bool,
}

/// One operation.
#[derive(Clone, Copy, Debug)]
struct Operation {
    kind: u8,
    side: usize,
    stream: StreamId,
    a: u8,
    b: u8,
}

impl Operation {
    fn of(bytes: &[u8]) -> Operation {
        let [what, a, b] = bytes.try_into().expect("three bytes are an operation");
        let what: u8 = what;
        let stream = StreamId(i64::from(what >> 5 & 3));
        Operation { kind: what & 31, side: usize::from(what >> 7), stream, a, b }
    }

    fn number(self) -> u64 {
        u64::from(self.a) << 8 | u64::from(self.b)
    }

    fn other_stream(self) -> StreamId {
        StreamId(i64::from(self.b % 6))
    }

    /// One of `n` things, of which there is at least one.
    fn pick(self, n: usize) -> usize {
        usize::from(self.a) % n
    }
}

/// Runs a program.
pub(crate) fn run(bytes: &[u8]) {
    let [settings, operations @ ..] = bytes else { return };
    let settings =
        SETTINGS[usize::from(*settings) % (SETTINGS.len() - 1)].parse().expect("these are settings");
    let devices = [0, 1].map(|_| Arc::new(Simulated::new(1 << 30)));
    let reel = Reel::builder()
        .device(Limit::new(devices[0].clone(), BUDGET_BYTES))
        .device(Limit::new(devices[1].clone(), BUDGET_BYTES))
        .settings(settings)
        // Naming stacks would read a sanitizer's debug info, for seconds each time.
        .history(Recording::all().context(Context::None).max_entries(1 << 16))
        .build()
        .expect("simulated devices open");
    let mut sides =
        [0, 1].map(|i| Side::new(devices[i].clone(), reel.allocator(i).expect("it exists").clone()));
    for bytes in operations.chunks_exact(3).take(MOST_OPERATIONS) {
        let operation = Operation::of(bytes);
        sides[operation.side].run(operation);
        sides[operation.side].check();
    }
    let mut findings = validate(&reel.snapshot());
    // Pools may have ids that viewers would round.
    findings.retain(|finding| finding.severity == Severity::Error && finding.rule != Rule::Integers);
    assert!(findings.is_empty(), "{findings:?}");
    let have_failed = sides.each_ref().map(|side| side.has_failed);
    sides.into_iter().for_each(Side::end);
    drop(reel);
    for (device, has_failed) in devices.iter().zip(have_failed) {
        assert!(has_failed || device.n_segments() == 0, "everything went back");
    }
}

impl Side {
    fn new(device: Arc<Simulated>, allocator: CachingAllocator) -> Side {
        let (live, raw, pools) = (Vec::new(), Vec::new(), Vec::new());
        Side { device, allocator, live, raw, pools, has_failed: false }
    }

    fn run(&mut self, operation: Operation) {
        let Operation { kind, stream, .. } = operation;
        match kind {
            0..=7 => self.alloc(operation),
            8..=14 if !self.live.is_empty() => {
                let block = self.live.swap_remove(operation.pick(self.live.len()));
                let freed = block.free();
                assert!(freed.is_ok() || self.has_failed, "{freed:?}");
            }
            15..=17 if !self.live.is_empty() => {
                let block = &self.live[operation.pick(self.live.len())];
                block.record_stream(operation.other_stream());
            }
            18 => self.device.set_busy(operation.other_stream()),
            19 => self.device.set_idle(operation.other_stream()),
            20 => {
                let emptied = self.allocator.empty_cache();
                assert!(emptied.is_ok() || self.has_failed, "{emptied:?}");
            }
            21 => self.change_rules(operation),
            22..=27 => self.use_pools(operation),
            28 => {
                if let Ok(address) = self.allocator.alloc_raw(1 + operation.number(), stream) {
                    self.raw.push((address, 1 + operation.number()));
                }
            }
            29 if !self.raw.is_empty() => {
                let (address, _) = self.raw.swap_remove(operation.pick(self.raw.len()));
                let freed = self.allocator.free_raw(address).expect("it is live");
                assert!(freed.is_ok() || self.has_failed, "{freed:?}");
                assert!(self.allocator.free_raw(address).is_none(), "it was freed");
            }
            30 if !self.raw.is_empty() => {
                let (address, _) = self.raw[operation.pick(self.raw.len())];
                assert!(self.allocator.record_stream_raw(address, operation.other_stream()));
                assert!(self.allocator.annotate_raw(address, "raw"));
            }
            31 => self.disturb(operation),
            _ => {}
        }
    }

    /// Sizes up to 64 KiB or up to 128 MiB.
    fn alloc(&mut self, operation: Operation) {
        let shift = if operation.kind.is_multiple_of(2) { 0 } else { 11 };
        match self.allocator.alloc(1 + (operation.number() << shift), operation.stream) {
            Ok(block) => self.live.push(block),
            Err(error) => {
                assert!(error.is_out_of_memory() || self.has_failed && error.is_device(), "{error}")
            }
        }
    }

    fn change_rules(&mut self, operation: Operation) {
        let text = SETTINGS[operation.pick(SETTINGS.len())];
        match operation.b % 4 {
            0 => self.allocator.set_memory_limit(Some(u64::from(operation.a) * MIB)),
            1 => self.allocator.set_memory_limit(None),
            2 => self.allocator.set_memory_fraction(f64::from(operation.a) / 255.0).expect("from 0 to 1"),
            _ => {
                // Sizes may contradict those in force.
                let before = self.allocator.settings();
                match self.allocator.update_settings(text) {
                    Ok(()) => assert!(!text.starts_with("this"), "{text}"),
                    Err(error) => assert!(error.is_invalid_option() && self.allocator.settings() == before),
                }
            }
        }
    }

    /// Calls for unknown pools, and in a wrong order, are misuse, and change nothing.
    fn use_pools(&mut self, operation: Operation) {
        let Operation { kind, stream, a, b, .. } = operation;
        let pool = *self.pools.get(operation.pick(self.pools.len() + 1)).unwrap_or(&PoolId::of_user(999));
        let options = PoolOptions::default().use_on_oom(b & 1 != 0).no_split(b & 2 != 0);
        let done = match kind {
            22 if self.pools.len() < 50 && b & 12 == 0 => {
                let id = PoolId { graph: u64::from(a & 3), user: u64::MAX - u64::from(a >> 6) };
                let created = self.allocator.create_pool_as(id, options);
                self.pools.extend(created.is_ok().then_some(id));
                created
            }
            22 if self.pools.len() < 50 => {
                let is_capture = b & 12 == 4;
                let capture = || self.allocator.create_capture_pool();
                self.pools.push(if is_capture { capture() } else { self.allocator.create_pool(options) });
                Ok(())
            }
            23 | 24 => {
                let route = if b & 1 == 0 {
                    Route::Thread
                } else {
                    Route::Streams(Box::new(move |requested| requested == stream))
                };
                self.allocator.begin_pool(pool, route)
            }
            25 => self.allocator.end_pool(pool),
            26 => self.allocator.release_pool(pool),
            27 => self.allocator.empty_pool(pool),
            _ => Ok(()),
        };
        if let Err(error) = done {
            assert!(error.is_misuse() || self.has_failed && error.is_device(), "{error}");
        }
    }

    fn disturb(&mut self, operation: Operation) {
        match operation.b % 8 {
            0 => self.device.refuse_next(u32::from(operation.a % 4)),
            1 => {
                self.device.fail_next(u32::from(operation.a % 4));
                self.has_failed = true;
            }
            2 => self.device.synchronize(),
            3 => self.allocator.reset_peak_memory_stats(),
            4 => self.allocator.reset_accumulated_memory_stats(),
            _ => {
                if let Some(block) = self.live.last() {
                    block.annotate("a block");
                }
            }
        }
    }

    /// The segments, the statistics, the device and the program agree.
    fn check(&self) {
        let mut segments = Vec::new();
        self.allocator.inspect(&mut |seen| segments = seen.to_vec());
        check_tiling(&segments);
        let blocks = || segments.iter().flat_map(|segment| &segment.blocks);
        let allocated = blocks().filter(|block| block.state == BlockState::ActiveAllocated);
        let mut allocated: Vec<_> = allocated.map(|block| (block.address, block.requested_bytes)).collect();
        let mut expected: Vec<_> = self.live.iter().map(|block| (block.address(), block.bytes())).collect();
        expected.extend(&self.raw);
        allocated.sort_unstable();
        expected.sort_unstable();
        assert_eq!(allocated, expected);
        let stats = self.allocator.stats();
        let sum = |is: fn(BlockState) -> bool| {
            let counted = blocks().filter(|block| is(block.state));
            counted.map(|block| block.size_bytes).sum::<u64>().cast_signed()
        };
        assert_eq!(stats.allocated_bytes.all.current, sum(|state| state == BlockState::ActiveAllocated));
        assert_eq!(stats.active_bytes.all.current, sum(BlockState::is_active));
        assert_eq!(stats.reserved_bytes.all.current, sum(|_| true));
        assert_eq!(self.allocator.memory_reserved(), self.device.total_bytes() - self.device.free_bytes());
    }

    /// Frees all that the program has, as its end does.
    fn end(self) {
        self.device.fail_next(0);
        drop(self.live);
    }
}

/// Segments do not overlap, and each byte of one is in exactly one block.
fn check_tiling(segments: &[InventorySegment]) {
    let mut end = 0;
    for segment in segments {
        assert!(segment.address.0 >= end, "segments overlap at {}", segment.address);
        end = segment.address.0;
        for block in &segment.blocks {
            assert_eq!(block.address.0, end, "a gap or an overlap");
            end += block.size_bytes;
        }
        assert_eq!(end, segment.address.0 + segment.size_bytes);
    }
}
