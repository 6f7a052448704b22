//! Runs the worked scenarios of docs/caching-allocator.md 10, in its notation.
//!
//! `a x 4M@1` allocates, `f x` frees, `r x 1` records a stream, `b 1` and
//! `i 1` make a stream busy and idle, `E` empties the cache, `set …` changes
//! settings at run time. Over 400 lines, because it follows the order of that page.

use std::{collections::HashMap, sync::Arc};

use memreel::{
    Allocation, BlockState, CachingAllocator, DeviceId, Error, PoolId, StreamId,
    allocator::{PoolOptions, Route},
    device::{Limit, Simulated},
    recorder::{Context, Recorder, Recording},
    snapshot::{Dialect, Snapshot, collect},
};

struct Table {
    device: Arc<Simulated>,
    recorder: Recorder,
    allocator: CachingAllocator,
    live: HashMap<String, Allocation>,
    segments: Vec<u64>,
    ranges: Vec<Range>,
    n_seen: usize,
    last_error: Option<Error>,
}

/// An expandable segment as its events show it.
struct Range {
    base: u64,
    mapped_bytes: u64,
    end: u64,
}

/// A size with an optional unit: `4M`, `100`.
fn bytes(text: &str) -> u64 {
    let (digits, shift) = match text.split_at(text.len() - 1) {
        (digits, "K") => (digits, 10),
        (digits, "M") => (digits, 20),
        (digits, "G") => (digits, 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().unwrap() << shift
}

impl Table {
    fn new() -> Table {
        Table::of(80 << 30)
    }

    fn of(capacity: u64) -> Table {
        let device = Arc::new(Simulated::new(80 << 30));
        let recorder = Recorder::new();
        recorder.record_history(&Recording::all().context(Context::None));
        let limit = Limit::new(device.clone(), capacity);
        let allocator = CachingAllocator::new(limit, &recorder.track(DeviceId(0)));
        let (live, segments) = (HashMap::new(), Vec::new());
        Table { device, recorder, allocator, live, segments, ranges: Vec::new(), n_seen: 0, last_error: None }
    }

    /// Runs requests and answers with the events they caused: `SA S0+0 20M`,
    /// `AL S0+0 4000000`, `FR`, `FC`, `SF`, `OOM`.
    fn run(&mut self, requests: &str) -> String {
        for request in requests.split(';') {
            let words: Vec<&str> = request.split_whitespace().collect();
            let stream = |text: &str| StreamId(text.parse().unwrap());
            match words[..] {
                ["a", name, size] => {
                    let (size, on) = size.split_once('@').unwrap_or((size, "0"));
                    match self.allocator.alloc(bytes(size), stream(on)) {
                        Ok(block) => drop(self.live.insert(name.into(), block)),
                        Err(error) => self.last_error = Some(error),
                    }
                }
                ["f", name] => self.live.remove(name).unwrap().free().unwrap(),
                ["r", name, on] => self.live[name].record_stream(stream(on)),
                ["b", on] => self.device.set_busy(stream(on)),
                ["i", on] => self.device.set_idle(stream(on)),
                ["set", conf] => self.allocator.update_settings(conf).unwrap(),
                ["E"] => self.allocator.empty_cache().unwrap(),
                _ => panic!("what is {request:?}?"),
            }
        }
        self.new_events()
    }

    fn snapshot(&self) -> Snapshot {
        collect(&self.recorder, [&self.allocator], Dialect::default())
    }

    fn new_events(&mut self) -> String {
        let snapshot = self.snapshot();
        let events: Vec<_> = snapshot.device_traces[0]
            .iter()
            .filter(|entry| entry.action.unwrap().name() != "snapshot")
            .skip(self.n_seen)
            .collect();
        self.n_seen += events.len();
        let told: Vec<String> = events.iter().map(|entry| self.tell(entry)).collect();
        told.join("; ")
    }

    fn tell(&mut self, entry: &memreel::snapshot::TraceEntry) -> String {
        let (address, bytes) = (entry.address.0, entry.size);
        let short = match entry.action.unwrap().name() {
            "segment_alloc" => {
                self.segments.push(address);
                "SA"
            }
            "segment_map" => {
                // A range grows at its end or within it; anywhere else a new one begins.
                match self.live_range(address).map(|range| &mut self.ranges[range]) {
                    Some(range) if address <= range.end => {
                        range.mapped_bytes += bytes;
                        range.end = range.end.max(address + bytes);
                    }
                    _ => self.ranges.push(Range { base: address, mapped_bytes: bytes, end: address + bytes }),
                }
                "MAP"
            }
            "segment_unmap" => {
                let range = self.live_range(address).unwrap();
                self.ranges[range].mapped_bytes -= bytes;
                return format!("UNMAP E{range}+{} {}", size(address - self.ranges[range].base), size(bytes));
            }
            "segment_free" => "SF",
            "alloc" => "AL",
            "free_requested" => "FR",
            "free_completed" => "FC",
            "oom" => return format!("OOM {} free, {}", size(address), size(bytes)),
            other => panic!("unexpected {other}"),
        };
        if let Some(range) = self.live_range(address) {
            return format!("{short} E{range}+{} {}", size(address - self.ranges[range].base), size(bytes));
        }
        // The segment that begins last before the address; of two at one place, the newer.
        let before = (0..self.segments.len()).filter(|s| self.segments[*s] <= address);
        let nearest = before.max_by_key(|s| (self.segments[*s], *s)).expect("a segment came first");
        format!("{short} S{nearest}+{} {}", size(address - self.segments[nearest]), size(bytes))
    }

    /// The range with memory that begins last before an address, if it is not a segment's.
    fn live_range(&self, address: u64) -> Option<usize> {
        // Segments stand above this, ranges below.
        const SEGMENTS: u64 = 0x7f00_0000_0000;
        let is_live = |range: &Range| range.mapped_bytes > 0 && range.base <= address;
        let live = (0..self.ranges.len()).filter(|r| is_live(&self.ranges[*r]));
        live.filter(|_| address < SEGMENTS).max_by_key(|r| (self.ranges[*r].base, *r))
    }

    /// Sizes and states of all blocks, a list a segment, in MiB: `20a 60i`.
    fn blocks(&self) -> Vec<String> {
        let block = |b: &memreel::snapshot::Block| {
            format!("{}{}", b.size >> 20, if b.state.unwrap().is_active() { "a" } else { "i" })
        };
        let segment =
            |s: &memreel::snapshot::Segment| s.blocks.iter().map(block).collect::<Vec<_>>().join(" ");
        self.snapshot().segments.iter().map(segment).collect()
    }

    fn stat(&self, name: &str) -> i64 {
        self.allocator.stats().flatten()[name]
    }

    /// al aB rq sg rB ac acB is isB, as the page abbreviates them.
    fn stats(&self, expected: &str) {
        for pair in expected.split(',') {
            let (short, value) = pair.trim().split_once(' ').unwrap();
            let name = match short {
                "al" => "allocation",
                "aB" => "allocated_bytes",
                "rq" => "requested_bytes",
                "sg" => "segment",
                "rB" => "reserved_bytes",
                "ac" => "active",
                "acB" => "active_bytes",
                "is" => "inactive_split",
                "isB" => "inactive_split_bytes",
                other => panic!("what is {other}?"),
            };
            let current = self.stat(&format!("{name}.all.current"));
            assert_eq!(current.cast_unsigned(), bytes(value), "{short} in {expected}");
        }
    }
}

/// Formats a size as the page does: whole MiB and KiB with their unit.
fn size(bytes: u64) -> String {
    match bytes {
        0 => "0".into(),
        b if b % (1 << 20) == 0 => format!("{}M", b >> 20),
        b if b % 1024 == 0 => format!("{}K", b >> 10),
        b => b.to_string(),
    }
}

#[test]
fn s10_1_a_matrix_of_a_million_floats() {
    let mut t = Table::new();
    assert_eq!(t.run("a x 4000000"), "SA S0+0 20M; AL S0+0 4000000");
    t.stats("al 1, aB 4000256, rq 4000000, sg 1, rB 20M, is 1, isB 16971264");
    assert_eq!(t.run("a y 4000000"), "AL S0+4000256 4000000");
    t.stats("aB 8000512, is 1, isB 12971008");
    assert_eq!(t.run("f x"), "FR S0+0 4000000; FC S0+0 4000000");
    t.stats("is 2, isB 16971264");
    t.run("f y");
    t.stats("is 0, isB 0, rB 20M");
    let sums = ["inactive_split.all.allocated", "inactive_split.all.freed"].map(|name| t.stat(name));
    assert_eq!(sums, [2, 2]);
    let sums =
        ["inactive_split_bytes.all.allocated", "inactive_split_bytes.all.freed"].map(|name| t.stat(name));
    assert_eq!(sums, [20 << 20; 2]);
    let snapshot = t.snapshot();
    let [block] = snapshot.segments[0].blocks[..] else { panic!("one block") };
    assert_eq!((block.size, block.requested_size), (20 << 20, 4_000_000), "the stale request shows");
    assert_eq!(t.run("E"), "SF S0+0 20M");
    assert_eq!(t.stat("num_sync_all_streams"), 1);
}

#[test]
fn s10_2_less_than_a_mebibyte_over_is_not_split() {
    let mut t = Table::new();
    t.run("a x 4000000; a y 4000000; f x");
    assert_eq!(t.run("a z 3000000"), "AL S0+0 3000000");
    t.stats("aB 8000512, rq 7000000");
}

#[test]
fn s10_3_reassigning_a_gibibyte() {
    let mut t = Table::new();
    assert_eq!(t.run("a t1 1G"), "SA S0+0 1024M; AL S0+0 1024M");
    assert_eq!(t.run("a t2 1G"), "SA S1+0 1024M; AL S1+0 1024M");
    t.run("f t1");
    assert_eq!(t.run("a t3 1G"), "AL S0+0 1024M");
    t.run("f t2");
    t.stats("al 1, aB 1G, sg 2, rB 2G");
    assert_eq!(t.run("E"), "SF S1+0 1024M");
    t.stats("rB 1G");
}

#[test]
fn s10_4_packing_the_small_pool() {
    let mut t = Table::new();
    assert_eq!(t.run("a a1 1"), "SA S0+0 2M; AL S0+0 1");
    assert_eq!(t.run("a a2 512; a a3 513; a a4 1M"), "AL S0+512 512; AL S0+1K 513; AL S0+2K 1M");
    assert_eq!(t.run("a a5 1M"), "SA S1+0 2M; AL S1+0 1M");
    t.stats("al 5, aB 2099200, rq 2098178, sg 2, rB 4M, is 2, isB 2095104");
    t.run("f a1; f a3");
    t.stats("is 4, isB 2096640");
    assert_eq!(t.run("a a6 1000; a a7 100"), "AL S0+1K 1000; AL S0+0 100");
}

#[test]
fn s10_5_a_hole_too_small_then_exact() {
    let mut t = Table::new();
    t.run("a a 512; a b 512; a c 512; f b");
    assert_eq!(t.run("a d 1024; a e 512"), "AL S0+1536 1K; AL S0+512 512");
}

#[test]
fn s10_6_coalescing_in_three_orders() {
    let mut t = Table::new();
    for (order, after) in [
        ("A C B", ["is 2, isB 1536K", "is 2, isB 1792K", "is 0, isB 0"]),
        ("B A C", ["is 2, isB 1536K", "is 2, isB 1792K", "is 0, isB 0"]),
        ("C B A", ["is 1, isB 1536K", "is 1, isB 1792K", "is 0, isB 0"]),
    ] {
        t.run("a A 256K; a B 256K; a C 256K");
        t.stats("is 1, isB 1280K");
        for (name, stats) in order.split(' ').zip(after) {
            t.run(&format!("f {name}"));
            t.stats(stats);
        }
    }
    let of = |name: &str| ["peak", "allocated", "freed"].map(|what| t.stat(&format!("{name}.all.{what}")));
    assert_eq!(of("inactive_split"), [2, 5, 5]);
    assert_eq!(of("inactive_split_bytes"), [1792 << 10, 6912 << 10, 6912 << 10]);
}

#[test]
fn s10_7_ties_across_segments() {
    let mut t = Table::new();
    t.run("a a 10M; a b 12M; a c 10M; a d 14M; f c; f a; f d; f b");
    assert_eq!(t.run("a e 10M; a g 10M; a h 10M"), "AL S0+0 10M; AL S2+0 10M; AL S1+0 10M");
    t.stats("is 1, isB 2M");
    assert_eq!(t.run("a i 11M"), "AL S3+0 11M");
    t.stats("isB 5M");
}

#[test]
fn s10_8_and_10_9_retry_then_out_of_memory() {
    let mut t = Table::of(3 << 30);
    t.run("a a1 1G; a a2 1G; f a1; f a2");
    assert_eq!(t.run("a big 2500M"), "SF S0+0 1024M; SF S1+0 1024M; SA S2+0 2500M; AL S2+0 2500M");
    let counts = |t: &Table| {
        ["num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free"]
            .map(|name| t.stat(name))
    };
    assert_eq!(counts(&t), [1, 0, 1, 3, 2]);

    t.run("f big; a l1 1G; a small 1K");
    assert_eq!(t.run("a huge 5G"), "OOM 570M free, 5120M");
    assert_eq!(counts(&t)[..3], [2, 1, 2]);
    let error = t.last_error.take().unwrap();
    let figures = error.out_of_memory().unwrap();
    assert_eq!(figures.requested_bytes, 5 << 30);
    assert_eq!(figures.device_free_bytes, 570 << 20);
    assert_eq!(figures.allocated_bytes, (1 << 30) + 1024);
    assert_eq!(figures.unallocated_bytes(), (1476 << 20) + (2 << 20) - 1024);
    let text = error.to_string();
    for part in ["5.00 GiB", "570.00 MiB free", "1.00 GiB is allocated", "1.44 GiB is reserved"] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    let rest = t.snapshot().segments.iter().flat_map(|s| s.blocks.clone()).find(|b| b.size == 1476 << 20);
    assert_eq!(rest.map(|b| (b.requested_size, b.state)), Some((2500 << 20, Some(BlockState::Inactive))));
}

#[test]
fn s10_10_the_device_fails_with_nothing_cached() {
    let mut t = Table::new();
    t.run("a s 1K");
    t.device.refuse_next(1);
    assert_eq!(t.run("a x 4M"), "SA S1+0 20M; AL S1+0 4M");
    assert_eq!([t.stat("num_alloc_retries"), t.stat("num_sync_all_streams")], [1, 1]);
    t.device.refuse_next(2);
    assert!(t.run("a y 30M").starts_with("OOM"));
}

#[test]
fn s10_11_the_mebibyte_boundary() {
    let mut t = Table::new();
    assert_eq!(t.run("a a1 1048576"), "SA S0+0 2M; AL S0+0 1M");
    assert_eq!(t.run("a a2 1048577"), "SA S1+0 20M; AL S1+0 1048577");
    assert_eq!(t.run("a a3 1048064"), "AL S0+1M 1048064");
    t.stats("al 3, aB 3145728, rq 3145217, sg 2, rB 22M, is 2, isB 19922944");
    assert_eq!(t.run("a a4 1048575"), "SA S2+0 2M; AL S2+0 1048575");
}

#[test]
fn s10_12_the_ten_mebibyte_boundary() {
    let mut t = Table::new();
    assert_eq!(t.run("a a1 10485248"), "SA S0+0 20M; AL S0+0 10485248");
    t.stats("isB 10486272");
    assert_eq!(t.run("a a2 10485249"), "AL S0+10485248 10485249");
    t.stats("aB 20M, is 0");
    assert_eq!(t.run("a a3 10485760"), "SA S1+0 10M; AL S1+0 10M");
    assert_eq!(t.run("a a4 10485761; a a5 12M"), "SA S2+0 12M; AL S2+0 10485761; SA S3+0 12M; AL S3+0 12M");
    let before = t.stat("inactive_split.all.current");
    assert_eq!(t.run("a a6 13M"), "SA S4+0 14M; AL S4+0 13M");
    assert_eq!(t.stat("inactive_split.all.current"), before, "exactly 1 MiB is not split off");
    assert_eq!(t.run("f a1; a a7 10M"), "FR S0+0 10485248; FC S0+0 10485248; SA S5+0 10M; AL S5+0 10M");
    assert_eq!(t.run("a a8 9M"), "AL S0+0 9M");
}

#[test]
fn s10_13_the_split_threshold_of_large_blocks() {
    for (request, splits, bytes_split) in
        [("19M", 0, 0), ("19922943", 0, 0), ("19922432", 1, 1_049_088), ("18M", 1, 2 << 20)]
    {
        let mut t = Table::new();
        t.run(&format!("a w 9M; f w; a x {request}"));
        t.stats(&format!("is {splits}, isB {bytes_split}"));
    }
}

#[test]
fn s10_15_a_busy_stream_keeps_a_block() {
    let mut t = Table::new();
    t.run("a x 4M; b 1; r x 1");
    assert_eq!(t.run("f x"), "FR S0+0 4M");
    t.stats("al 0, aB 0, rq 4M, ac 1, acB 4M, is 1");
    let segment = t.snapshot().segments[0].clone();
    assert_eq!(segment.blocks[0].state, Some(BlockState::ActivePendingFree));
    assert_eq!([segment.allocated_size, segment.active_size, segment.requested_size], [0, 4 << 20, 4 << 20]);
    assert_eq!(t.run("a y 4M"), "AL S0+4M 4M");
    assert_eq!(t.run("i 1; a z 4M"), "FC S0+0 4M; AL S0+0 4M");
}

#[test]
fn s10_16_an_idle_stream_completes_at_the_next_request() {
    let mut t = Table::new();
    assert_eq!(t.run("a p 4M; r p 1; f p"), "SA S0+0 20M; AL S0+0 4M; FR S0+0 4M");
    assert_eq!(t.run("a q 1K"), "FC S0+0 4M; SA S1+0 2M; AL S1+0 1K");
}

#[test]
fn s10_17_two_streams_on_one_block() {
    let mut t = Table::new();
    t.run("a x 4M; b 1; b 2; r x 1; r x 2; r x 0");
    assert_eq!(t.run("f x"), "FR S0+0 4M");
    assert_eq!(t.run("i 1; a y 1K"), "SA S1+0 2M; AL S1+0 1K", "stream 2 still uses it");
    assert_eq!(t.run("E"), "FC S0+0 4M; SF S0+0 20M");
    assert_eq!(t.stat("num_sync_all_streams"), 1);
}

#[test]
fn s10_18_first_freed_first_completed() {
    let mut t = Table::new();
    t.run("a A 4M; a B 4M; r A 1; r B 1; f B; f A");
    assert_eq!(t.run("a C 1K"), "FC S0+4M 4M; FC S0+0 4M; SA S1+0 2M; AL S1+0 1K");
}

#[test]
fn s10_19_a_waiting_block_does_not_merge() {
    let mut t = Table::new();
    t.run("a A 256K; a B 256K; a C 256K; b 1; r B 1; f B; f A; f C");
    t.stats("is 2, isB 1792K, ac 1");
    let sizes: Vec<_> = t.snapshot().segments[0].blocks.iter().map(|b| b.size >> 10).collect();
    assert_eq!(sizes, [256, 256, 1536]);
    assert_eq!(t.run("i 1; a D 512"), "FC S0+256K 256K; AL S0+0 512");
}

#[test]
fn s10_20_out_of_memory_waits_for_streams() {
    let mut t = Table::of(100 << 20);
    t.run("a x 60M; b 1; r x 1; f x");
    assert_eq!(t.run("a y 80M"), "FC S0+0 60M; SF S0+0 60M; SA S1+0 80M; AL S1+0 80M");
    assert_eq!([t.stat("num_alloc_retries"), t.stat("num_sync_all_streams")], [1, 1]);
}

#[test]
fn s10_21_streams_do_not_share() {
    let mut t = Table::new();
    t.run("a x 4M@1; a y 4M@2; a z 4M");
    assert_eq!(t.run("f x; a w 4M@2"), "FR S0+0 4M; FC S0+0 4M; AL S1+4M 4M");
    assert_eq!(t.run("a v 4M@1"), "AL S0+0 4M");
    t.run("f y; f z; f w; f v");
    assert_eq!(t.run("E"), "SF S2+0 20M; SF S0+0 20M; SF S1+0 20M");
}

#[test]
fn s10_22_the_order_in_which_the_cache_is_emptied() {
    let mut t = Table::new();
    t.run("a a 30M; a b 40M; a c 40M; a d 20M@2; a e 30M@2; a s 1K; a u 1K@2");
    t.run("f a; f b; f c; f d; f e; f s; f u");
    let order = "SF S0+0 30M; SF S1+0 40M; SF S2+0 40M; SF S3+0 20M; SF S4+0 30M; SF S5+0 2M; SF S6+0 2M";
    assert_eq!(t.run("E"), order);
}

#[test]
fn s10_23_a_partly_used_segment_stays() {
    let mut t = Table::new();
    t.run("a a1 4M; a a2 4M; a b1 1G; a s1 1K; f a1; f b1");
    assert_eq!(t.run("E"), "SF S1+0 1024M");
    t.stats("sg 2, rB 22M, is 3, isB 18873344");
    t.run("f a2; f s1");
    assert_eq!(t.run("E"), "SF S0+0 20M; SF S2+0 2M");
    assert_eq!(t.stat("num_sync_all_streams"), 2);
}

#[test]
fn s10_24_a_split_limit() {
    let mut t = Table::new();
    t.run("set max_split_size_mb:100; a big 200M; f big");
    assert_eq!(t.run("a med 50M"), "SA S1+0 50M; AL S1+0 50M", "the oversize block is refused");
    assert_eq!(t.run("a big2 190M"), "AL S0+0 190M");
    t.stats("aB 250M");
    assert_eq!(t.run("f big2; a big3 150M"), "FR S0+0 190M; FC S0+0 190M; SA S2+0 150M; AL S2+0 150M");
    let of = |what: &str| ["allocated", "peak"].map(|part| t.stat(&format!("{what}.{part}")));
    assert_eq!((of("oversize_allocations"), of("oversize_segments")[0]), ([3, 1], 2));
    assert_eq!(t.stat("max_split_size"), -1, "as it was when the allocator was made");
    t.run("f med; f big3");
    assert_eq!(t.run("E"), "SF S1+0 50M; SF S2+0 150M; SF S0+0 200M");
}

#[test]
fn s10_25_releasing_just_enough() {
    let mut t = Table::of(1000 << 20);
    t.run("set max_split_size_mb:100; a a 200M; a b 300M; a c 400M; f a; f b; f c");
    assert_eq!(t.run("a y 350M"), "SF S2+0 400M; SA S3+0 350M; AL S3+0 350M");
    assert_eq!(t.run("a z 450M"), "SF S1+0 300M; SF S0+0 200M; SA S4+0 450M; AL S4+0 450M");
    assert_eq!([t.stat("num_alloc_retries"), t.stat("num_sync_all_streams")], [0, 0]);
}

#[test]
fn s10_26_a_segment_that_is_itself_oversize() {
    let mut t = Table::new();
    t.run("set max_split_size_mb:20; a x 4M; f x");
    assert_eq!(t.stat("oversize_segments.current"), 1);
    assert_eq!(t.run("a y 4M"), "SA S1+0 20M; AL S1+0 4M", "a small request may not have it");
    assert_eq!(t.run("a z 20M"), "AL S0+0 20M");
}

#[test]
fn s10_27_expandable_and_oversize() {
    let mut t = Table::new();
    t.run("set expandable_segments:True,max_split_size_mb:100");
    assert_eq!(t.run("a a 200M"), "MAP E0+0 200M; AL E0+0 200M");
    assert_eq!(t.run("f a; a b 50M"), "FR E0+0 200M; FC E0+0 200M; AL E0+0 50M", "growth finds it mapped");
    assert_eq!(t.run("a c 190M"), "MAP E0+200M 40M; AL E0+50M 190M");
    assert_eq!([t.stat("oversize_allocations.allocated"), t.stat("oversize_segments.allocated")], [2, 0]);
}

#[test]
fn s10_28_growing_large_expandable_segments() {
    let mut t = Table::new();
    assert_eq!(t.run("set expandable_segments:True; a a 4M"), "MAP E0+0 20M; AL E0+0 4M");
    t.stats("sg 0, rB 20M, is 0");
    assert_eq!(t.run("a b 4M; a c 30M"), "AL E0+4M 4M; MAP E0+20M 20M; AL E0+8M 30M");
    assert_eq!(t.run("f b; a d 5M"), "FR E0+4M 4M; FC E0+4M 4M; MAP E0+40M 20M; AL E0+38M 5M");
    t.run("f a; f c; f d");
    assert_eq!(t.run("E"), "UNMAP E0+0 60M");
    t.stats("rB 0");
    assert_eq!([t.stat("num_device_alloc"), t.stat("num_device_free")], [3, 1]);
    assert_eq!(t.device.n_segments(), 0, "the addresses are gone too");
    assert_eq!(t.run("a e 4M"), "MAP E1+0 20M; AL E1+0 4M");
}

#[test]
fn s10_29_growing_small_expandable_segments() {
    let mut t = Table::new();
    t.run("set expandable_segments:True");
    assert_eq!(t.run("a a 100; a b 1M"), "MAP E0+0 2M; AL E0+0 100; AL E0+512 1M");
    assert_eq!(t.run("a c 1M"), "MAP E0+2M 2M; AL E0+1049088 1M");
    t.run("f a; f b");
    assert_eq!(t.run("E"), "", "no whole page is free");
    assert_eq!(t.run("f c; E"), "FR E0+1049088 1M; FC E0+1049088 1M; UNMAP E0+0 4M");
}

#[test]
fn s10_30_a_gap_is_filled_again() {
    let mut t = Table::new();
    assert_eq!(
        t.run("set expandable_segments:True; a a 20M; a b 60M; a c 20M"),
        "MAP E0+0 20M; AL E0+0 20M; MAP E0+20M 60M; AL E0+20M 60M; MAP E0+80M 20M; AL E0+80M 20M"
    );
    t.run("f b");
    assert_eq!(t.run("E"), "UNMAP E0+20M 60M");
    assert_eq!(t.blocks(), ["20a", "20a"], "two stretches, two segments");
    assert_eq!(t.run("a d 30M"), "MAP E0+20M 40M; AL E0+20M 30M");
    assert_eq!(t.blocks(), ["20a 30a 10i", "20a"]);
    assert_eq!(t.snapshot().segments[0].blocks[2].requested_size, 60 << 20, "stale");
    assert_eq!(t.run("a e 30M; a g 10M"), "MAP E0+60M 20M; AL E0+50M 30M; MAP E0+100M 20M; AL E0+100M 10M");
}

#[test]
fn s10_31_pieces_that_straddle_pages() {
    let mut t = Table::new();
    t.run("set expandable_segments:True; a a 5M");
    assert_eq!(t.run("a b 50M; a c 5M"), "MAP E0+20M 40M; AL E0+5M 50M; AL E0+55M 5M");
    assert_eq!(t.run("f b; E"), "FR E0+5M 50M; FC E0+5M 50M; UNMAP E0+20M 20M");
    assert_eq!(t.blocks(), ["5a 15i", "15i 5a"]);
    assert_eq!(t.run("a d 12M"), "AL E0+40M 12M", "the left piece could grow, so it counts as larger");
    t.run("f d");
    assert_eq!(t.run("a e 40M"), "MAP E0+20M 20M; AL E0+5M 40M");
}

#[test]
fn s10_32_out_of_memory_with_expandable_segments() {
    let mut t = Table::of(100 << 20);
    assert_eq!(t.run("set expandable_segments:True; a a 60M"), "MAP E0+0 60M; AL E0+0 60M");
    assert_eq!(t.run("a s 1K@1"), "MAP E1+0 2M; AL E1+0 1K");
    t.run("f a");
    assert_eq!(t.run("a b 50M@1"), "UNMAP E0+0 60M; MAP E2+0 60M; AL E2+0 50M");
    assert_eq!([t.stat("num_alloc_retries"), t.stat("num_sync_all_streams")], [1, 1]);
    assert_eq!(t.run("a c 200M"), "OOM 38M free, 200M");
}

#[test]
fn s10_33_switching_expandable_segments_at_run_time() {
    let mut t = Table::new();
    t.run("set expandable_segments:True; a a 4M; f a");
    assert_eq!(t.run("set expandable_segments:False; a b 4M"), "SA S0+0 20M; AL S0+0 4M");
    assert_eq!(t.run("f b; set expandable_segments:True; a c 3M"), "FR S0+0 4M; FC S0+0 4M; AL S0+0 3M");
    assert_eq!(t.run("a d 30M"), "MAP E0+20M 20M; AL E0+0 30M");
}

#[test]
fn s10_34_a_memory_limit() {
    let mut t = Table::new();
    t.allocator.set_memory_fraction(0.001).unwrap();
    assert_eq!(t.allocator.memory_limit(), Some(85_899_345));
    t.run("a a 40M");
    assert!(t.run("a b 41M").starts_with("OOM"));
    let error = t.last_error.take().unwrap();
    assert!(error.to_string().contains("may hold 81.92 MiB"), "{error}");
    assert_eq!(t.run("f a; a c 42M"), "FR S0+0 40M; FC S0+0 40M; SF S0+0 40M; SA S1+0 42M; AL S1+0 42M");
    assert_eq!(t.stat("num_alloc_retries"), 2);
    t.allocator.set_memory_fraction(1.0).unwrap();
    assert_eq!(t.allocator.memory_limit(), None);
    assert!(t.allocator.set_memory_fraction(1.5).unwrap_err().is_invalid_option());
    assert!(t.allocator.set_memory_fraction(f64::NAN).unwrap_err().is_invalid_option());
}

#[test]
fn s10_42_completions_on_several_streams_come_in_the_order_of_a_table() {
    let mut t = Table::new();
    t.run("a x 4M; a y 4M; a z 4M; r x 36880; r y 36896; r z 36912; f x; f y; f z");
    assert_eq!(t.run("a q 1K"), "FC S0+4M 4M; FC S0+0 4M; FC S0+8M 4M; SA S1+0 2M; AL S1+0 1K");
}

#[test]
fn zero_and_absurd_sizes_leave_no_trace() {
    let mut t = Table::new();
    let zero = t.allocator.alloc(0, StreamId::DEFAULT).unwrap_err();
    assert!(zero.is_invalid_size() && !zero.is_out_of_memory(), "{zero}");
    let absurd = t.allocator.alloc(1 << 60, StreamId::DEFAULT).unwrap_err();
    assert!(absurd.is_invalid_size() && absurd.is_out_of_memory(), "{absurd}");
    assert!(absurd.to_string().contains("more than 1EB"), "{absurd}");
    assert_eq!(t.new_events(), "");
    assert!(t.allocator.stats().flatten().iter().all(|(name, n)| *n == 0 || name == "max_split_size"));
}

#[test]
fn resets_begin_again() {
    let mut t = Table::new();
    t.run("a x 4M; a y 4M; f x");
    t.allocator.reset_peak_memory_stats();
    t.allocator.reset_accumulated_memory_stats();
    assert_eq!(t.stat("allocated_bytes.all.peak"), 4 << 20);
    t.run("f y; E");
    let names = ["allocation.all.allocated", "allocation.all.freed", "num_device_alloc", "num_device_free"];
    assert_eq!(names.map(|name| t.stat(name)), [0, 1, 0, 1], "freed exceeds allocated after a reset");
}

#[test]
fn s10_35_garbage_is_collected_above_the_threshold() {
    let mut t = Table::new();
    t.run("set garbage_collection_threshold:0.5");
    t.allocator.set_memory_fraction(0.0125).unwrap();
    assert_eq!(t.allocator.memory_limit(), Some(1 << 30));
    t.run("a a 100M; a b 200M; a c 300M; f a; f b; f c");
    assert_eq!(t.run("a d 250M; a e 40M"), "AL S2+0 250M; AL S2+250M 40M");
    assert_eq!(t.run("a f 400M"), "SF S0+0 100M; SF S1+0 200M; SA S3+0 400M; AL S3+0 400M");
    assert_eq!(t.stat("num_sync_all_streams"), 0);
}

#[test]
fn s10_35_only_what_is_old_goes() {
    let mut t = Table::new();
    t.allocator.set_memory_fraction(0.0125).unwrap();
    t.run("a old 150M; a new 100M; a held 190M; a w 10M@1; f w; set garbage_collection_threshold:0.3");
    // Each search makes what is free older: the 150M has seen three, the 100M one.
    t.run("f old; a x 10M@1; f x; a y 10M@1; f y; f new");
    assert_eq!(t.run("a g 260M"), "SF S0+0 150M; SA S4+0 260M; AL S4+0 260M");
}

#[test]
fn s10_37_private_pools() {
    let mut t = Table::new();
    let pool = t.allocator.create_pool(PoolOptions::default());
    assert_eq!(pool, PoolId::of_user(1));
    t.allocator.begin_pool(pool, Route::Thread).unwrap();
    assert_eq!(t.run("a a 4M; a b 1K"), "SA S0+0 20M; AL S0+0 4M; SA S1+0 2M; AL S1+0 1K");
    t.allocator.end_pool(pool).unwrap();
    t.allocator.release_pool(pool).unwrap();
    assert_eq!(t.run("a c 4M"), "SA S2+0 20M; AL S2+0 4M", "the default pool has its own");
    let pools: Vec<_> = t.snapshot().segments.iter().map(|s| s.pool).collect();
    assert_eq!(pools.iter().filter(|id| **id == pool).count(), 2);
    assert_eq!(t.run("f a; E"), "FR S0+0 4M; FC S0+0 4M", "somebody still holds the pool");
    t.allocator.release_pool(pool).unwrap();
    assert_eq!(t.run("f b; E"), "FR S1+0 1K; FC S1+0 1K; SF S1+0 2M; SF S0+0 20M");
    assert!(t.allocator.release_pool(pool).unwrap_err().is_misuse(), "it is gone");
}

#[test]
fn s10_37_private_pools_go_in_the_order_of_a_table() {
    let mut t = Table::new();
    let pools = [(); 2].map(|()| t.allocator.create_pool(PoolOptions::default()));
    for (pool, request) in pools.iter().zip(["a a 4M", "a b 4M"]) {
        t.allocator.begin_pool(*pool, Route::Thread).unwrap();
        t.run(request);
        t.allocator.end_pool(*pool).unwrap();
    }
    t.run("f a; f b");
    for pool in pools.into_iter().chain(pools) {
        t.allocator.release_pool(pool).unwrap();
    }
    assert_eq!(t.run("E"), "SF S1+0 20M; SF S0+0 20M", "(0,2) first");
}

#[test]
fn a_pool_that_is_held_is_not_emptied_and_misuse_is_told() {
    let mut t = Table::new();
    let pool = t.allocator.create_pool(PoolOptions::default());
    assert_eq!(t.allocator.create_capture_pool(), PoolId::of_graph(1));
    t.allocator.begin_pool(pool, Route::Streams(Box::new(|stream| stream == StreamId(7)))).unwrap();
    assert!(t.allocator.begin_pool(pool, Route::Thread).unwrap_err().is_misuse());
    t.run("a a 4M@7; a b 4M");
    t.allocator.end_pool(pool).unwrap();
    assert!(t.allocator.end_pool(pool).unwrap_err().is_misuse());
    assert!(t.allocator.begin_pool(PoolId::of_user(9), Route::Thread).unwrap_err().is_misuse());
    t.run("f a; f b");
    let synced = t.stat("num_sync_all_streams");
    t.allocator.empty_pool(pool).unwrap();
    assert_eq!((t.new_events(), t.stat("num_sync_all_streams")), (String::new(), synced));
    t.allocator.release_pool(pool).unwrap();
    t.allocator.release_pool(pool).unwrap();
    t.allocator.empty_pool(pool).unwrap();
    assert_eq!((t.new_events().as_str(), t.stat("num_sync_all_streams")), ("SF S0+0 20M", synced + 1));
}

#[test]
fn a_pool_may_have_an_id_that_is_chosen_elsewhere() {
    let t = Table::new();
    let create = |id| t.allocator.create_pool_as(id, PoolOptions::default());
    create(PoolId::of_user(9)).unwrap();
    create(PoolId::of_graph(4)).unwrap();
    assert!(create(PoolId::of_user(9)).unwrap_err().is_misuse(), "it exists");
    assert!(create(PoolId::DEFAULT).unwrap_err().is_misuse(), "that is the default pool");
    assert_eq!(t.allocator.create_pool(PoolOptions::default()), PoolId::of_user(10));
    assert_eq!(t.allocator.create_capture_pool(), PoolId::of_graph(5));
    t.allocator.release_pool(PoolId::of_user(9)).unwrap();
    // After the last numbers come the first again, without those in use.
    create(PoolId::of_user(1)).unwrap();
    create(PoolId::of_user(u64::MAX)).unwrap();
    create(PoolId::of_graph(u64::MAX)).unwrap();
    assert_eq!(t.allocator.create_pool(PoolOptions::default()), PoolId::of_user(2));
    assert_eq!(t.allocator.create_capture_pool(), PoolId::of_graph(1));
}

#[test]
fn s10_38_while_a_pool_is_begun_frees_wait_and_the_cache_stays() {
    let mut t = Table::of(100 << 20);
    t.run("a cached 30M@2; f cached");
    let pool = t.allocator.create_pool(PoolOptions::default());
    t.run("a x 4M; a z 4M; r z 1");
    t.allocator.begin_pool(pool, Route::Thread).unwrap();
    t.run("r x 1");
    assert_eq!(t.run("f x; f z"), "FR S1+0 4M; FR S1+4M 4M");
    assert_eq!(t.run("a y 1K"), "SA S2+0 2M; AL S2+0 1K", "nothing completes");
    assert_eq!(t.run("a w 90M"), "OOM 48M free, 90M");
    assert_eq!([t.stat("num_alloc_retries"), t.stat("num_sync_all_streams")], [0, 0]);
    t.allocator.end_pool(pool).unwrap();
    // x was recorded only meanwhile, which does not count; z's stream is asked.
    assert_eq!(t.run("a v 1K"), "FC S1+0 4M; FC S1+4M 4M; SA S3+0 2M; AL S3+0 1K");
}

#[test]
fn s10_39_a_pool_that_lends_when_there_is_no_more() {
    let mut t = Table::of(200 << 20);
    let pool = t.allocator.create_pool(PoolOptions::default().use_on_oom(true));
    t.allocator.begin_pool(pool, Route::Thread).unwrap();
    t.run("a p 80M; f p");
    t.allocator.end_pool(pool).unwrap();
    t.run("a x 100M");
    assert_eq!(t.run("a y 60M"), "AL S0+0 60M");
    assert_eq!((t.blocks(), t.stat("num_alloc_retries")), (vec!["60a 20i".into(), "100a".into()], 0));
    assert_eq!(t.run("a z 50M"), "OOM 20M free, 50M");
    let error = t.last_error.take().unwrap();
    let figures = error.out_of_memory().unwrap();
    assert_eq!((figures.allocated_bytes >> 20, figures.private_pool_bytes >> 20), (160, 20));
    let message = figures.torch_message();
    let part = "180.00 MiB is allocated by PyTorch, with 20.00 MiB allocated in private pools";
    assert!(message.contains(part), "{message}");
}

#[test]
fn s10_40_a_pool_that_never_splits() {
    let mut t = Table::new();
    let pool = t.allocator.create_pool(PoolOptions::default().no_split(true));
    t.allocator.begin_pool(pool, Route::Thread).unwrap();
    assert_eq!(t.run("a a 1K; a b 1K"), "SA S0+0 2M; AL S0+0 1K; SA S1+0 2M; AL S1+0 1K");
    t.stats("aB 4M, is 0");
}

#[test]
fn s6_4_a_piece_smaller_than_a_page_is_not_returned() {
    let mut t = Table::new();
    t.run("set expandable_segments:True; a a 5M; a b 15M; f b");
    assert_eq!(t.run("E"), "");
    t.stats("rB 20M");
}
