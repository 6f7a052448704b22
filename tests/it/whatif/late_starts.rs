//! Random programs that are recorded whole, cut at a random event, and replayed: the baseline is the recorded run.
//!
//! The oracle is the whole recording. Of the cut one, memreel has the events behind the cut and the final segments; from
//! them it reconstructs the state at the cut. If a block, a gap or a page of that state is wrong, some later request is
//! served from elsewhere, and the reserved bytes or the addresses differ.

use std::sync::Arc;

use memreel::{
    Action, Allocation, CachingAllocator, DeviceId, PoolId, Snapshot, StreamId,
    allocator::{PoolOptions, Route},
    device::Simulated,
    history::Confidence,
    recorder::{Context, Recorder, Recording},
    snapshot::{Dialect, Frame, TraceEntry, collect},
    whatif::{self, Requests},
};
use memreel_testing::{say, seeds::seeds};

use crate::random::Random;

const MIB: u64 = 1 << 20;
/// Each range of an expandable segment has an eighth more addresses than this.
const DEVICE_BYTES: u64 = 80 << 30;

const CONFS: [&str; 12] = [
    "",
    "",
    "expandable_segments:True",
    "expandable_segments:True",
    "max_split_size_mb:21",
    "max_split_size_mb:64,max_non_split_rounding_mb:40",
    "expandable_segments:True,max_split_size_mb:64",
    "roundup_power2_divisions:8",
    "expandable_segments:True,roundup_power2_divisions:[1:8,2:4,64:2,256:1,>:4]",
    "large_segment_size_mb:12",
    "expandable_segments:True,large_segment_size_mb:24",
    "per_process_memory_fraction:0.002",
];

/// A program with its allocator.
struct World {
    device: Arc<Simulated>,
    recorder: Recorder,
    allocator: CachingAllocator,
    live: Vec<Allocation>,
    pool: Option<PoolId>,
    is_in_pool: bool,
    /// The numbers of events after each call of the allocator.
    n_events: Vec<usize>,
}

impl World {
    fn new(random: &mut Random) -> World {
        let device = Simulated::new(DEVICE_BYTES);
        let device = Arc::new(if random.chance(2) { device.falling() } else { device });
        let recorder = Recorder::new();
        recorder.record_history(&Recording::all().context(Context::None).max_entries(1 << 16));
        let settings = random.pick(&CONFS).parse().unwrap();
        let allocator =
            CachingAllocator::with_settings(device.clone(), &recorder.track(DeviceId(0)), settings);
        if random.chance(3) {
            allocator.set_memory_limit(Some((60 + random.below(400)) * MIB));
        }
        let pool = random.chance(4).then(|| allocator.create_pool(PoolOptions::default()));
        World { device, recorder, allocator, live: Vec::new(), pool, is_in_pool: false, n_events: Vec::new() }
    }

    /// Does a random call, and notes how many events there are after it.
    fn call(&mut self, random: &mut Random) {
        match random.below(100) {
            0..50 => self.alloc(random),
            50..85 if !self.live.is_empty() => {
                let block = self.live.swap_remove(random.index(self.live.len()));
                block.free().unwrap();
            }
            85..89 if !self.live.is_empty() => {
                random.pick(&self.live).record_stream(StreamId(i64::from(random.below(5) as u8)));
            }
            89 => self.device.set_busy(StreamId(random.below(5) as i64)),
            90 | 91 => self.device.set_idle(StreamId(random.below(5) as i64)),
            92 => self.allocator.empty_cache().unwrap(),
            93 => self.device.refuse_next(1 + random.below(2) as u32),
            94 | 95 => self.enter_or_leave_the_pool(),
            // A phase ends.
            96 => self.live.truncate(random.index(self.live.len() + 1)),
            _ => {}
        }
        let stats = self.allocator.stats();
        let n = stats.allocation.all.allocated
            + stats.allocation.all.freed
            + stats.active.all.freed
            + stats.num_device_alloc
            + stats.num_device_free
            + stats.num_ooms;
        self.n_events.push(usize::try_from(n).unwrap());
    }

    fn alloc(&mut self, random: &mut Random) {
        let bytes = match random.below(10) {
            0..4 => 1 + random.below(MIB),
            4..7 => MIB + random.below(9 * MIB),
            7 => *random.pick(&[MIB, MIB + 1, 10 * MIB - 512, 10 * MIB, 20 * MIB, 21 * MIB, 64 * MIB]),
            _ => 10 * MIB + random.below(80 * MIB),
        };
        let stream = StreamId(*random.pick(&[0, 0, 0, 1, 2]));
        match self.allocator.alloc(bytes, stream) {
            Ok(block) => self.live.push(block),
            Err(error) => assert!(error.is_out_of_memory(), "{error}"),
        }
    }

    fn enter_or_leave_the_pool(&mut self) {
        let Some(pool) = self.pool else { return };
        match self.is_in_pool {
            true => self.allocator.end_pool(pool).unwrap(),
            false => self.allocator.begin_pool(pool, Route::Thread).unwrap(),
        }
        self.is_in_pool = !self.is_in_pool;
    }

    /// The recording. Each call has a stack of its own, as in a program.
    fn snapshot(&self) -> Snapshot {
        // Before PyTorch 2.12, nothing names the private pool of a request that failed.
        let dialect = if self.pool.is_some() { Dialect::Torch2_15 } else { Dialect::default() };
        let mut snapshot = collect(&self.recorder, [&self.allocator], dialect);
        assert_eq!(snapshot.device_traces[0].len(), self.n_events.last().copied().unwrap_or(0));
        let mut from = 0;
        for (call, until) in self.n_events.iter().enumerate() {
            let frame = Frame { line: call as u64, ..Frame::default() };
            let frame = snapshot.stacks.intern_frame(frame);
            let stack = snapshot.stacks.intern_stack(&[frame]);
            snapshot.device_traces[0][from..*until].iter_mut().for_each(|entry| entry.stack = Some(stack));
            from = *until;
        }
        snapshot
    }
}

/// The reserved bytes after each entry, of a trace that begins with `level`.
fn series(entries: &[TraceEntry], mut level: u64) -> Vec<u64> {
    let after = |entry: &TraceEntry| {
        match entry.action {
            Some(Action::SegmentAlloc | Action::SegmentMap) => level += entry.size,
            Some(Action::SegmentFree | Action::SegmentUnmap) => level -= entry.size,
            _ => {}
        }
        level
    };
    entries.iter().map(after).collect()
}

/// Action, address and size of the entries that show where memory is. The order in which several frees complete within
/// one call is not kept.
fn places(entries: &[TraceEntry]) -> Vec<(Action, u64, u64)> {
    let is_free = |entry: &&TraceEntry| {
        matches!(entry.action, Some(Action::FreeRequested | Action::FreeCompleted | Action::Snapshot))
    };
    let place = |entry: &TraceEntry| {
        let address = if entry.action == Some(Action::Oom) { 0 } else { entry.address.0 };
        (entry.action.unwrap(), address, entry.size)
    };
    entries.iter().filter(|entry| !is_free(entry)).map(place).collect()
}

/// Whether the cut left a request that was not served from a cached block.
fn check(seed: u64) -> bool {
    let mut random = Random::new(seed);
    let mut world = World::new(&mut random);
    for _ in 0..20 + random.below(280) {
        world.call(&mut random);
    }
    if world.n_events.last().is_none_or(|n| *n == 0) {
        return false;
    }
    let whole = world.snapshot();
    let entries = &whole.device_traces[0];
    let cut = random.index(entries.len());
    let all = series(entries, 0);
    let start_bytes = cut.checked_sub(1).map_or(0, |last| all[last]);
    let mut late = whole.clone();
    late.device_traces[0].drain(..cut);
    let requests = Requests::new(&late, DeviceId(0)).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let baseline = requests.baseline();
    let conf = requests.recorded().usable_conf();
    let told = format!("seed {seed}, {conf:?}, cut at {cut} of {}: {:?}", entries.len(), requests.warnings());
    assert_eq!((baseline.deviation_bytes, baseline.deviation_entry), (0, None), "{told}");
    assert_eq!(baseline.num_other_ooms, 0, "{told}");
    let is_sure = baseline.confidence() == Confidence::Sure;
    assert_eq!(is_sure, baseline.num_compared > 0, "{told}: {baseline:?}");
    let peak_bytes = all[cut..].iter().copied().max().unwrap_or(0).max(start_bytes);
    assert_eq!(baseline.peak_bytes, peak_bytes, "{told}");
    assert_eq!(baseline.end_bytes, *all.last().unwrap(), "{told}");
    // What the replay did, as a snapshot of its own.
    let limit_bytes = requests.could_hold().map(|found| found.at_least_bytes);
    let replayed = whatif::replayed(&late, &[&requests], conf, limit_bytes).unwrap();
    let (ours, theirs) = (places(&replayed.device_traces[0]), places(&late.device_traces[0]));
    // The request that was under way at the cut counts as one before it.
    let (first, theirs) = theirs.split_at(theirs.len().saturating_sub(ours.len()));
    let is_end = |(action, ..): &&(Action, u64, u64)| matches!(action, Action::Alloc | Action::Oom);
    assert_eq!(first.iter().filter(is_end).count(), usize::from(!first.is_empty()), "{told}");
    let other = ours.iter().zip(theirs).position(|(ours, theirs)| ours != theirs);
    assert_eq!(other.map(|at| (at, ours[at], theirs[at])), None, "{told}");
    assert_eq!(ours.len(), theirs.len(), "{told}");
    series(&late.device_traces[0], start_bytes) != vec![start_bytes; entries.len() - cut]
}

/// `MEMREEL_LATE_STARTS` is the number of programs, or a range of seeds such as `1000..2000`.
#[test]
fn a_recording_that_began_late_is_repeated_event_for_event() {
    let seeds = seeds("MEMREEL_LATE_STARTS", 0..300);
    let n = seeds.end - seeds.start;
    let n_changed = seeds.clone().filter(|seed| check(*seed)).count();
    say(&format!(
        "programs with seeds {seeds:?}, cut: {n_changed} of {n} take or return memory behind the cut"
    ));
    assert!(n_changed as u64 > n / 2, "{n_changed}");
}
