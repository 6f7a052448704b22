//! `rewrite::merge_torch`: one allocator over a device that reports its calls, so that two snapshots show one truth.
//!
//! Over 400 lines, because all cases need the same device and the same two recordings.
#![allow(unsafe_code, reason = "a device is implemented, whose calls go to another")]

use std::{
    collections::BTreeMap,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use memreel::{
    Allocation, Reel,
    device::{Device, Mark, Simulated},
    ledger::Ledger,
    recorder::{Context, Recorder, Recording, StackKind},
    snapshot::{Dialect, collect},
};
use memreel_snapshot::{
    Action, Address, BlockState, DeviceId, Result, Snapshot, StreamId,
    join::merge_torch,
    model::TraceEntry,
    validate::{Severity, validate},
};

use crate::{random::Random, seeds::seeds};

/// A device whose calls are reported to a ledger as the driver's are.
#[derive(Debug)]
struct Reported {
    device: Arc<Simulated>,
    ledger: Arc<Ledger>,
    page_bytes: Mutex<BTreeMap<u64, u64>>,
}

impl Reported {
    fn pages(&self, address: Address, bytes: u64) -> Vec<(Address, u64)> {
        let pages = self.page_bytes.lock().unwrap();
        let (_, page_bytes) = pages.range(..=address.0).next_back().unwrap();
        (0..bytes / page_bytes).map(|nth| (Address(address.0 + nth * page_bytes), *page_bytes)).collect()
    }
}

// SAFETY: every call goes to the device, which keeps the contract.
unsafe impl Device for Reported {
    fn name(&self) -> String {
        self.device.name()
    }
    fn total_bytes(&self) -> u64 {
        self.device.total_bytes()
    }
    fn free_bytes(&self) -> u64 {
        self.device.free_bytes()
    }
    fn is_host_visible(&self) -> bool {
        self.device.is_host_visible()
    }
    fn segment_alloc(&self, bytes: u64) -> Result<Option<Address>> {
        take_time();
        let found = self.device.segment_alloc(bytes)?;
        if let Some(address) = found {
            driver_alloc(&self.ledger, address, bytes);
        }
        Ok(found)
    }
    unsafe fn segment_free(&self, address: Address, bytes: u64) {
        driver_free(&self.ledger, address);
        take_time();
        // SAFETY: the caller's promise.
        unsafe { self.device.segment_free(address, bytes) };
    }
    fn range_reserve(&self, bytes: u64, page_bytes: u64) -> Result<Option<Address>> {
        let found = self.device.range_reserve(bytes, page_bytes)?;
        if let Some(address) = found {
            self.page_bytes.lock().unwrap().insert(address.0, page_bytes);
        }
        Ok(found)
    }
    unsafe fn range_release(&self, address: Address, bytes: u64) {
        self.page_bytes.lock().unwrap().remove(&address.0);
        // SAFETY: the caller's promise.
        unsafe { self.device.range_release(address, bytes) };
    }
    unsafe fn range_map(&self, address: Address, bytes: u64) -> Result<bool> {
        take_time();
        // SAFETY: the caller's promise.
        let is_mapped = unsafe { self.device.range_map(address, bytes) }?;
        if is_mapped {
            for (page, bytes) in self.pages(address, bytes) {
                let stack = self.ledger.stack_of_segment();
                self.ledger.block_map_by(page, bytes, StreamId::DEFAULT, stack).unwrap();
            }
        }
        Ok(is_mapped)
    }
    unsafe fn range_unmap(&self, address: Address, bytes: u64) {
        for (page, bytes) in self.pages(address, bytes) {
            assert_eq!(self.ledger.block_unmap(page, bytes), Ok(1));
        }
        take_time();
        // SAFETY: the caller's promise.
        unsafe { self.device.range_unmap(address, bytes) };
    }
    fn mark(&self, stream: StreamId) -> Result<Mark> {
        self.device.mark(stream)
    }
    fn is_passed(&self, mark: Mark) -> Result<bool> {
        self.device.is_passed(mark)
    }
    fn wait(&self, mark: Mark) -> Result<()> {
        self.device.wait(mark)
    }
    unsafe fn forget(&self, mark: Mark) {
        // SAFETY: the caller's promise.
        unsafe { self.device.forget(mark) };
    }
}

/// A call of a driver takes longer than two clocks differ, and than the driver's event and its stack before PyTorch's.
fn take_time() {
    let start = Instant::now();
    while start.elapsed() < Duration::from_micros(100) {}
}

/// Runs the process of each seed; one that fails runs again, up to five times. Its events have real times: if the thread
/// loses the processor between the driver's event and PyTorch's, the histories are in another order than the calls
/// were, and a merge has to repair them. What is wrong without that fails each time.
fn each_process(seeds_in: Range<u64>, mut run: impl FnMut(u64)) {
    for seed in seeds("MEMREEL_MERGES", seeds_in) {
        let is_fine = (0..5).any(|_| catch_unwind(AssertUnwindSafe(|| run(seed))).is_ok());
        assert!(is_fine, "seed {seed} failed five times");
    }
}

fn driver_alloc(ledger: &Ledger, address: Address, bytes: u64) {
    ledger.segment_alloc(address, bytes, StreamId::DEFAULT).unwrap();
    ledger.alloc(address, bytes, StreamId::DEFAULT).unwrap();
}

fn driver_free(ledger: &Ledger, address: Address) {
    ledger.free(address).unwrap();
    ledger.segment_free(address).unwrap();
}

/// What an event is, for comparison: device, action, address, size, stream.
type Said = (i64, &'static str, u64, u64, i64);

/// A process with PyTorch and another library on two GPUs.
struct Process {
    random: Random,
    devices: [Arc<Simulated>; 2],
    driver: Recorder,
    ledgers: [Arc<Ledger>; 2],
    torch: Reel,
    live: Vec<Allocation>,
    others: Vec<(usize, Address, u64)>,
    /// The events of the other library.
    of_others: Vec<Said>,
}

impl Process {
    fn new(seed: u64, settings: &str, stacks: StackKind) -> Process {
        let driver = Recorder::new();
        driver.record_history(&Recording::all().stacks(stacks).context(Context::All));
        let devices = [Simulated::new(8 << 30), Simulated::new(8 << 30)].map(Arc::new);
        let ledgers = [0, 1].map(|number| Arc::new(driver.ledger(DeviceId(number))));
        let mut torch = Reel::builder().settings(settings.parse().unwrap());
        for (device, ledger) in devices.iter().zip(&ledgers) {
            let (device, ledger) = (device.clone(), ledger.clone());
            torch = torch.device(Reported { device, ledger, page_bytes: Mutex::default() });
        }
        let torch = torch.build().unwrap();
        let (live, others, of_others) = Default::default();
        Process { random: Random::new(seed), devices, driver, ledgers, torch, live, others, of_others }
    }

    fn record(&self, history: &Recording) {
        self.torch.record_history(&history.clone().stacks(StackKind::None));
    }

    fn run(&mut self, n_steps: usize) {
        for _ in 0..n_steps {
            self.step();
        }
    }

    fn step(&mut self) {
        let device = usize::from(self.random.chance(4));
        match self.random.index(24) {
            0..9 => {
                let bytes = *self.random.pick(&[2_000, 300_000, 3_000_000, 40_000_000]);
                let bytes = 1 + self.random.below(bytes);
                let stream = StreamId(*self.random.pick(&[0, 0, 0, 7]));
                self.live.push(self.torch.allocators()[device].alloc(bytes, stream).unwrap());
            }
            9..17 if !self.live.is_empty() => {
                let at = self.random.index(self.live.len());
                self.live.swap_remove(at).free().unwrap();
            }
            17 if !self.live.is_empty() => {
                self.devices.iter().for_each(|device| device.set_busy(StreamId(9)));
                let at = self.random.index(self.live.len());
                self.live[at].record_stream(StreamId(9));
            }
            18 => self.devices.iter().for_each(|device| device.set_idle(StreamId(9))),
            19 => self.torch.empty_cache().unwrap(),
            20..22 => self.alloc_other(device),
            22..24 if !self.others.is_empty() => {
                let at = self.random.index(self.others.len());
                self.free_other(at);
            }
            _ => {}
        }
    }

    fn alloc_other(&mut self, device: usize) {
        let bytes = (1 + self.random.below(10)) << 21;
        take_time();
        let address = self.devices[device].segment_alloc(bytes).unwrap().unwrap();
        driver_alloc(&self.ledgers[device], address, bytes);
        take_time();
        self.others.push((device, address, bytes));
        self.said(device, address, bytes, &["segment_alloc", "alloc"]);
    }

    fn free_other(&mut self, at: usize) {
        let (device, address, bytes) = self.others.swap_remove(at);
        // PyTorch's event of a segment is later than the driver's, which may be the event before this one.
        take_time();
        driver_free(&self.ledgers[device], address);
        take_time();
        // SAFETY: it was allocated above, and is not in the list any more.
        unsafe { self.devices[device].segment_free(address, bytes) };
        self.said(device, address, bytes, &["free_requested", "free_completed", "segment_free"]);
    }

    fn said(&mut self, device: usize, address: Address, bytes: u64, actions: &[&'static str]) {
        let said = |action: &&'static str| (device as i64, *action, address.0, bytes, 0);
        self.of_others.extend(actions.iter().map(said));
    }

    fn driver(&self) -> Snapshot {
        let [one, other] = &self.ledgers;
        collect(&self.driver, [&**one, &**other], Dialect::default())
    }
}

fn said(snapshot: &Snapshot) -> Vec<Said> {
    let mut all = Vec::new();
    for (device, trace) in (0..).zip(&snapshot.device_traces) {
        let entries = trace.iter().filter(|entry| entry.action != Some(Action::Snapshot));
        let said = |entry: &TraceEntry| {
            let TraceEntry { action, address, size, stream, .. } = entry;
            (device, action.unwrap().name(), address.0, *size, stream.0)
        };
        all.extend(entries.map(said));
    }
    all
}

fn sorted<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort_unstable();
    all
}

/// A segment without its stack and its keys, and its blocks in use.
type Held = (i64, u64, u64, Vec<(u64, u64, u64, bool)>);

fn held(snapshot: &Snapshot) -> Vec<Held> {
    let of = |segment: &memreel_snapshot::model::Segment| {
        let active = segment.blocks.iter().filter(|block| block.state.unwrap().is_active());
        let blocks = active.map(|block| {
            let is_allocated = block.state == Some(BlockState::ActiveAllocated);
            (block.address.0, block.size, block.requested_size, is_allocated)
        });
        (segment.device.0, segment.address.0, segment.total_size, blocks.collect())
    };
    sorted(snapshot.segments.iter().map(of).collect())
}

/// The ranges of addresses that are in segments, neighbours joined.
fn covered(snapshot: &Snapshot) -> Vec<(i64, u64, u64)> {
    let mut joined: Vec<(i64, u64, u64)> = Vec::new();
    for (device, start, bytes, _) in held(snapshot) {
        match joined.last_mut() {
            Some(last) if last.0 == device && last.2 == start => last.2 += bytes,
            _ => joined.push((device, start, start + bytes)),
        }
    }
    joined
}

/// The most bytes in segments that a device had.
fn peak(snapshot: &Snapshot, device: usize) -> i64 {
    let of = |entry: &TraceEntry| match entry.action {
        Some(Action::SegmentAlloc | Action::SegmentMap) => entry.size as i64,
        Some(Action::SegmentFree | Action::SegmentUnmap) => -(entry.size as i64),
        _ => 0,
    };
    let trace = &snapshot.device_traces[device];
    trace
        .iter()
        .scan(0, |level, entry| Some(std::mem::replace(level, *level + of(entry)) + of(entry)))
        .max()
        .unwrap_or(0)
}

fn fixed_events(snapshot: &Snapshot) -> Option<i64> {
    snapshot.allocator_settings().and_then(|settings| settings.get("memreel_fixed_events")?.as_int())
}

/// What holds for every merged snapshot.
fn check(merged: &Snapshot, driver: &Snapshot, what: &str) {
    let found: Vec<String> = validate(merged)
        .iter()
        .filter(|finding| finding.severity >= Severity::Warning)
        .map(ToString::to_string)
        .filter(|text| !text.contains("max_entries") && !text.contains("the timeline"))
        .collect();
    assert_eq!(found, [""; 0], "{what}");
    assert_eq!(fixed_events(merged).unwrap_or(0), 0, "{what}: repaired");
    assert_eq!(covered(merged), covered(driver), "{what}: memory");
    for device in 0..2 {
        assert_eq!(peak(merged, device), peak(driver, device), "{what}: the peak of device {device}");
    }
}

const SETTINGS: [&str; 3] = ["", "expandable_segments:True", "max_split_size_mb:20"];

#[test]
fn pytorchs_events_and_those_of_others_are_there_once() {
    each_process(0..60, |seed| {
        let mut process = Process::new(seed, SETTINGS[seed as usize % 3], StackKind::None);
        process.record(&Recording::all());
        process.run(300);
        let (torch, driver) = (process.torch.snapshot(), process.driver());
        let merged = merge_torch(driver.clone(), torch.clone()).unwrap();
        check(&merged, &driver, &format!("seed {seed}"));
        let expected = [said(&torch), process.of_others.clone()].concat();
        assert_eq!(sorted(said(&merged)), sorted(expected), "seed {seed}");
        let others: Vec<Held> = process
            .others
            .iter()
            .map(|(device, at, bytes)| (*device as i64, at.0, *bytes, vec![(at.0, *bytes, *bytes, true)]))
            .collect();
        assert_eq!(held(&merged), sorted([held(&torch), others].concat()), "seed {seed}");
    });
}

#[test]
fn a_history_that_begins_late_takes_over_the_drivers_blocks() {
    each_process(0..60, |seed| {
        let mut process = Process::new(seed, SETTINGS[seed as usize % 3], StackKind::None);
        process.run(150);
        process.record(&Recording::all());
        process.run(seed as usize % 7 * 25);
        let (torch, driver) = (process.torch.snapshot(), process.driver());
        let merged = merge_torch(driver.clone(), torch.clone()).unwrap();
        check(&merged, &driver, &format!("seed {seed}"));
        assert!(held(&torch).iter().all(|segment| held(&merged).contains(segment)), "seed {seed}");
    });
}

#[test]
fn a_ring_that_lost_its_beginning_does_too() {
    each_process(0..60, |seed| {
        let mut process = Process::new(seed, SETTINGS[seed as usize % 3], StackKind::None);
        process.record(&Recording::all().max_entries(40));
        process.run(300);
        let (torch, driver) = (process.torch.snapshot(), process.driver());
        let merged = merge_torch(driver.clone(), torch.clone()).unwrap();
        check_ring(&merged, &driver, &format!("seed {seed}"));
        assert!(held(&torch).iter().all(|segment| held(&merged).contains(segment)), "seed {seed}");
    });
}

/// The ring's own warning remains.
fn check_ring(merged: &Snapshot, driver: &Snapshot, what: &str) {
    assert!(validate(merged).iter().all(|finding| finding.severity < Severity::Error), "{what}");
    assert_eq!(fixed_events(merged).unwrap_or(0), 0, "{what}: repaired");
    assert_eq!(covered(merged), covered(driver), "{what}: memory");
    for device in 0..2 {
        assert_eq!(peak(merged, device), peak(driver, device), "{what}: the peak of device {device}");
    }
}

#[test]
fn what_follows_the_dump_is_the_drivers() {
    let (mut n_kept, mut n_ended) = (0, 0);
    let blocks = |snapshot: &Snapshot| -> Vec<(i64, (u64, u64, u64, bool))> {
        let of = |(device, _, _, blocks): Held| blocks.into_iter().map(move |block| (device, block));
        held(snapshot).into_iter().flat_map(of).collect()
    };
    each_process(0..60, |seed| {
        let mut process = Process::new(seed, SETTINGS[seed as usize % 3], StackKind::None);
        process.record(&Recording::all());
        process.run(150);
        let (torch, at_dump) = (process.torch.snapshot(), process.driver());
        process.run(seed as usize % 7 * 25);
        let driver = process.driver();
        let merged = merge_torch(driver.clone(), torch.clone()).unwrap();
        check(&merged, &driver, &format!("seed {seed}"));
        // A block of the dump is there, unless the driver took its memory back.
        let ended: Vec<(i64, u64, u64)> = (0..)
            .zip(&driver.device_traces)
            .zip(&at_dump.device_traces)
            .flat_map(|((device, trace), before)| {
                let later = trace[before.len()..].iter();
                let ends = later
                    .filter(|entry| matches!(entry.action, Some(Action::SegmentFree | Action::SegmentUnmap)));
                ends.map(move |entry| (device, entry.address.0, entry.end().0))
            })
            .collect();
        let now = blocks(&merged);
        for (device, block) in blocks(&torch) {
            let (start, end) = (block.0, block.0 + block.1);
            let is_ended = ended.iter().any(|range| range.0 == device && range.1 < end && start < range.2);
            assert_eq!(now.contains(&(device, block)), !is_ended, "seed {seed}: {start:#x}");
            n_kept += usize::from(!is_ended);
            n_ended += usize::from(is_ended);
        }
        assert!(merged.allocator_settings().unwrap().get("memreel_torch_time_us").is_some());
    });
    assert!(n_kept > 100 && n_ended > 100, "{n_kept} kept, {n_ended} ended");
}

/// By less than a call of the driver takes, and by what hours of drift add up to.
#[test]
fn clocks_that_differ_change_nothing() {
    for (seed, skew_us) in seeds("MEMREEL_MERGES", 0..60).zip([-5, 5, -7_000, 7_000].into_iter().cycle()) {
        let mut process = Process::new(seed, SETTINGS[seed as usize % 3], StackKind::None);
        process.record(&Recording::all());
        process.run(200);
        let (mut torch, driver) = (process.torch.snapshot(), process.driver());
        torch.device_traces.iter_mut().flatten().for_each(|entry| entry.time_us += skew_us);
        let merged = merge_torch(driver.clone(), torch.clone()).unwrap();
        check(&merged, &driver, &format!("seed {seed}, skew {skew_us}"));
        let expected = [said(&torch), process.of_others.clone()].concat();
        assert_eq!(sorted(said(&merged)), sorted(expected), "seed {seed}");
    }
}

/// A tape that was read before the dump.
#[test]
fn a_dump_that_is_newer_than_the_tape_has_the_last_word() {
    for seed in 0..30 {
        let mut process = Process::new(seed, SETTINGS[seed as usize % 3], StackKind::None);
        process.record(&Recording::all());
        process.run(150);
        let driver = process.driver();
        process.run(100);
        let torch = process.torch.snapshot();
        let merged = merge_torch(driver, torch.clone()).unwrap();
        let errors = validate(&merged).iter().filter(|found| found.severity == Severity::Error).count();
        assert_eq!(errors, 0, "seed {seed}");
        assert!(held(&torch).iter().filter(|segment| held(&merged).contains(segment)).count() > 0);
    }
}

#[test]
fn a_segment_has_the_drivers_stack() {
    let mut process = Process::new(1, "", StackKind::Native);
    process.record(&Recording::all());
    process.run(100);
    let (torch, driver) = (process.torch.snapshot(), process.driver());
    let merged = merge_torch(driver.clone(), torch.clone()).unwrap();
    let stack = |snapshot: &Snapshot, at: usize| -> Vec<String> {
        snapshot.frames(snapshot.segments[at].stack).map(|frame| frame.name.to_string()).collect()
    };
    for at in 0..merged.segments.len() {
        let segment = &merged.segments[at];
        let same = driver
            .segments
            .iter()
            .position(|other| other.address == segment.address && other.device == segment.device);
        assert!(stack(&merged, at).len() > 3, "{:?}", stack(&merged, at));
        assert_eq!(stack(&merged, at), stack(&driver, same.unwrap()));
        let begin = merged.device_traces[segment.device.index().unwrap()]
            .iter()
            .rfind(|entry| entry.address == segment.address && entry.action == Some(Action::SegmentAlloc));
        assert_eq!(begin.unwrap().stack, segment.stack);
    }
}

/// Behind a pool of PyTorch's is an allocator with a sleep mode: it takes memory from under PyTorch's blocks and maps it again.
#[test]
fn what_sleeps_and_wakes_is_in_use_once() {
    const PAGE: u64 = 2 << 20;
    let at = Address(0x7000_0020_0000);
    let recorders = [Recorder::new(), Recorder::new()];
    let ledgers = recorders.each_ref().map(|recorder| {
        recorder.record_history(&Recording::all().stacks(StackKind::None));
        recorder.ledger(DeviceId(0))
    });
    let [driver, torch] = &ledgers;
    let in_use = || {
        let [driver, torch] = [0, 1].map(|at| collect(&recorders[at], [&ledgers[at]], Dialect::default()));
        let merged = merge_torch(driver, torch).unwrap();
        let errors: Vec<_> =
            validate(&merged).into_iter().filter(|found| found.severity == Severity::Error).collect();
        assert!(errors.is_empty(), "{errors:?}");
        let blocks = merged.segments.iter().flat_map(|segment| &segment.blocks);
        let active = blocks.filter(|block| block.state == Some(BlockState::ActiveAllocated));
        active.map(|block| (block.address.0 - at.0, block.requested_size)).collect::<Vec<_>>()
    };
    let map = || {
        driver.block_map_by(at, 4 * PAGE, StreamId::DEFAULT, driver.stack_of_segment()).unwrap();
        take_time();
    };
    map();
    torch.segment_alloc(at, 4 * PAGE, StreamId::DEFAULT).unwrap();
    torch.alloc(at, PAGE, StreamId::DEFAULT).unwrap();
    torch.alloc(Address(at.0 + PAGE), PAGE / 2, StreamId::DEFAULT).unwrap();
    take_time();
    assert_eq!(in_use(), [(0, PAGE), (PAGE, PAGE / 2)], "PyTorch's blocks");
    assert_eq!(driver.block_unmap(at, 4 * PAGE), Ok(1));
    take_time();
    assert!(in_use().is_empty(), "it sleeps");
    map();
    assert_eq!(in_use(), [(0, 4 * PAGE)], "what woke up is in use by what mapped it");
}

#[test]
fn settings_are_pytorchs_and_memreels() {
    let mut process = Process::new(1, "max_split_size_mb:20", StackKind::None);
    process.record(&Recording::all());
    process.run(20);
    let (torch, driver) = (process.torch.snapshot(), process.driver());
    let merged = merge_torch(driver.clone(), torch.clone()).unwrap();
    let setting = |snapshot: &Snapshot, key: &str| snapshot.allocator_settings().unwrap().get(key).cloned();
    assert_eq!(setting(&merged, "max_split_size"), setting(&torch, "max_split_size"));
    assert_ne!(setting(&merged, "max_split_size"), setting(&driver, "max_split_size"));
    assert_eq!(setting(&merged, "trace_alloc_max_entries"), setting(&driver, "trace_alloc_max_entries"));
    let last = torch.device_traces.iter().flatten().map(|entry| entry.time_us).max().unwrap();
    assert_eq!(setting(&merged, "memreel_torch_time_us").unwrap().as_int(), Some(last));
}

/// With `cudaMallocAsync`, whose memory the driver has in whole.
#[test]
fn events_without_segments_are_not_counted_again() {
    let mut process = Process::new(1, "", StackKind::None);
    process.run(50);
    let driver = process.driver();
    let torch: Snapshot = serde_json::from_str(
        r#"{"segments": [], "device_traces": [[
            {"action": "alloc", "addr": 139637976727552, "size": 512, "stream": 0, "time_us": 5}]]}"#,
    )
    .unwrap();
    let merged = merge_torch(driver.clone(), torch).unwrap();
    assert_eq!((said(&merged), held(&merged)), (said(&driver), held(&driver)));
}

#[test]
fn events_without_times_are_refused() {
    let torch: Snapshot = serde_json::from_str(
        r#"{"segments": [], "device_traces": [[
            {"action": "segment_alloc", "addr": 139637976727552, "size": 2097152, "stream": 0},
            {"action": "segment_free", "addr": 139637976727552, "size": 2097152, "stream": 0}]]}"#,
    )
    .unwrap();
    let error = merge_torch(Snapshot::default(), torch).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("PyTorch 2.2"), "{error}");
}

/// PyTorch writes the line of code that has none as -1, in 64 bits without a sign.
#[test]
fn a_frame_without_a_line_has_the_line_0() {
    let entry = r#"{"action": "segment_alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 7,
        "frames": [{"name": "f", "filename": "a.py", "line": 18446744073709551615}]}"#;
    let torch: Snapshot =
        serde_json::from_str(&format!(r#"{{"segments": [], "device_traces": [[{entry}]]}}"#)).unwrap();
    let driver: Snapshot = serde_json::from_str(r#"{"segments": [], "device_traces": [[]]}"#).unwrap();
    let merged = merge_torch(driver, torch).unwrap();
    let lines: Vec<u64> = merged.stacks.all_frames().map(|frame| frame.line).collect();
    assert_eq!(lines, [0]);
    assert!(
        validate(&merged).iter().all(|finding| finding.severity != Severity::Error),
        "{:?}",
        validate(&merged)
    );
}
