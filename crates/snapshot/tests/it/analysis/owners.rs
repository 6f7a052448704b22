//! Owners of a device's memory: the table against a sum over what was reported, of one process and of several.
#![forbid(unsafe_code)]

use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use memreel::{
    integrate::{FrameSource, SourceFrame, UsageReport},
    ledger::Ledger,
    recorder::{Context, Recorder, Recording},
    snapshot::{Dialect, collect},
};
use memreel_snapshot::{
    Address, DeviceId, Snapshot, StreamId,
    analysis::{By, DeviceHistory, DeviceOwners, RowKind, RunOwners, Site, owners},
    pickle,
    rewrite::{Merged, Part},
};

use crate::random::Random;

/// The functions that ask for memory, and their owners.
const ASKING: [(&str, &str); 10] = [
    ("ncclCommInitRank", "nccl"),
    ("cublasCreate_v2", "cublas"),
    ("c10::cuda::CUDACachingAllocator::malloc", "pytorch"),
    ("libvendor.so+0x12", "vendor"),
    ("grow", "program"),
    ("driver:context", "driver:context"),
    ("driver:module", "driver:module"),
    ("memory:managed", "memory:managed"),
    ("memory:imported", "memory:imported"),
    ("memory:alias", "memory:alias"),
];

thread_local! {
    static CALLER: Cell<usize> = const { Cell::new(0) };
}

/// Names the function that asks for memory now.
struct Caller;

impl FrameSource for Caller {
    fn capture(&self, words: &mut [usize]) -> usize {
        words[0] = CALLER.get();
        1
    }

    fn name(&self, word: usize) -> Vec<SourceFrame> {
        vec![SourceFrame { name: ASKING[word].0.into(), filename: "??".into(), line: 0 }]
    }
}

/// A process with one device, and what each owner has of it.
struct Process {
    recorder: Recorder,
    ledger: Ledger,
    held: BTreeMap<u64, (u64, &'static str)>,
    next: u64,
}

impl Process {
    fn new() -> Process {
        let recorder = Recorder::new();
        assert!(recorder.set_frame_source(Arc::new(Caller)));
        recorder.record_history(&Recording::all().context(Context::All));
        let ledger = recorder.ledger(DeviceId(0));
        Process { recorder, ledger, held: BTreeMap::new(), next: 1 << 40 }
    }

    fn ask(&mut self, caller: usize, bytes: u64) {
        CALLER.set(caller);
        self.ledger.segment_alloc(Address(self.next), bytes, StreamId::DEFAULT).unwrap();
        self.held.insert(self.next, (bytes, ASKING[caller].1));
        self.next += bytes + (2 << 20);
    }

    fn give_back(&mut self, nth: usize) {
        let address = *self.held.keys().nth(nth).unwrap();
        self.held.remove(&address);
        self.ledger.segment_free(Address(address)).unwrap();
    }

    fn owned(&self) -> BTreeMap<String, i128> {
        let mut all = BTreeMap::new();
        for (bytes, owner) in self.held.values() {
            *all.entry((*owner).to_owned()).or_default() += i128::from(*bytes);
        }
        all
    }

    /// The bytes that are in the sum.
    fn counted(&self) -> u64 {
        let in_sum = |(_, owner): &&(u64, &str)| {
            !["memory:managed", "memory:imported", "memory:alias"].contains(owner)
        };
        self.held.values().filter(in_sum).map(|(bytes, _)| bytes).sum()
    }

    fn report(&self, report: UsageReport) {
        self.recorder.report_usage(DeviceId(0), report);
        // Times have microseconds, and the next event is later.
        let now = Instant::now();
        while now.elapsed() < Duration::from_micros(30) {}
    }

    fn snapshot(&self) -> Snapshot {
        pickle::from_slice(&pickle::to_vec(&collect(&self.recorder, [&self.ledger], Dialect::default())))
            .unwrap()
    }
}

/// The rows of owners and of the driver, and those outside the sum, at the peak if `is_peak`.
fn rows(table: &DeviceOwners, is_peak: bool) -> BTreeMap<String, i128> {
    let of_segments = table.rows.iter().filter(|row| matches!(row.kind, RowKind::Owner | RowKind::Driver));
    let all = of_segments.chain(&table.outside);
    let bytes =
        all.map(|row| (row.owner.clone(), if is_peak { row.peak_bytes } else { row.now_bytes }.unwrap()));
    bytes.filter(|(_, bytes)| *bytes != 0).collect()
}

fn row(table: &DeviceOwners, kind: RowKind) -> [Option<i128>; 2] {
    let row = table.rows.iter().find(|row| row.kind == kind).unwrap();
    [row.now_bytes, row.peak_bytes]
}

/// The rows add up to what the device reports.
fn assert_whole(table: &DeviceOwners) {
    let now: i128 = table.rows.iter().filter_map(|row| row.now_bytes).sum();
    let peak: i128 = table.rows.iter().filter_map(|row| row.peak_bytes).sum();
    assert_eq!(
        [now, peak],
        [table.used_now_bytes, table.used_peak_bytes].map(|bytes| i128::from(bytes.unwrap()))
    );
}

/// What the device reported last, or most, with what was held then.
#[derive(Clone)]
struct Seen {
    report: UsageReport,
    owned: BTreeMap<String, i128>,
    counted: u64,
}

#[test]
fn the_table_is_the_sum_over_the_events() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut process = Process::new();
        let mut seen: Vec<Seen> = Vec::new();
        for _ in 0..random.below(120) {
            match random.below(5) {
                0 | 1 => process.ask(random.index(ASKING.len()), (1 + random.below(20)) << 21),
                2 if !process.held.is_empty() => process.give_back(random.index(process.held.len())),
                _ => {
                    let mut some = || random.below(1 << 24);
                    let report = UsageReport {
                        // Sometimes less than what is held.
                        used_bytes: (process.counted() + some()).saturating_sub(1 << 22),
                        total_bytes: 1 << 40,
                        pool_slack_bytes: some(),
                        page_rounding_bytes: some(),
                        other_processes_bytes: Some(some()).filter(|bytes| bytes % 2 == 0),
                        no_process_bytes: some() * (seed % 2),
                        reserved_address_bytes: some(),
                    };
                    process.report(report);
                    seen.push(Seen { report, owned: process.owned(), counted: process.counted() });
                }
            }
        }
        let snapshot = process.snapshot();
        let [table] = &owners(&[&snapshot])[..] else { panic!("seed {seed}: one device") };
        let Some(last) = seen.last() else { continue };
        // Of equal ones the first.
        let most = seen.iter().rev().max_by_key(|seen| seen.report.used_bytes).unwrap();
        assert_eq!(rows(table, false), last.owned, "seed {seed}");
        assert_eq!(rows(table, true), most.owned, "seed {seed}");
        assert_whole(table);
        let both = |look: fn(&Seen) -> Option<i128>| [last, most].map(look);
        assert_eq!(row(table, RowKind::PoolSlack), both(|seen| Some(seen.report.pool_slack_bytes.into())));
        assert_eq!(
            row(table, RowKind::PageRounding),
            both(|seen| Some(seen.report.page_rounding_bytes.into()))
        );
        let addresses = |seen: &Seen| seen.report.reserved_address_bytes;
        assert_eq!(table.reserved_address_bytes, addresses(last));
        assert_eq!(table.reserved_address_peak_bytes, seen.iter().map(addresses).max().unwrap());
        let others = |seen: &Seen| seen.report.other_processes_bytes.map(i128::from);
        assert_eq!(row(table, RowKind::OtherProcesses), both(others));
        let no_process = both(|seen| Some(seen.report.no_process_bytes.into()));
        match table.rows.iter().any(|row| row.kind == RowKind::NoProcess) {
            true => assert_eq!(row(table, RowKind::NoProcess), no_process),
            false => assert_eq!(no_process, [Some(0); 2]),
        }
        let unexplained = |seen: &Seen| {
            let report = seen.report;
            let known =
                [seen.counted, report.pool_slack_bytes, report.page_rounding_bytes, report.no_process_bytes];
            let others = report.other_processes_bytes.unwrap_or(0);
            Some(
                i128::from(report.used_bytes)
                    - known.map(i128::from).iter().sum::<i128>()
                    - i128::from(others),
            )
        };
        assert_eq!(row(table, RowKind::Unexplained), both(unexplained), "seed {seed}");
    }
}

/// Groups and peaks of owners, without any report.
#[test]
fn owners_over_time_are_the_sum_over_the_events() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut process = Process::new();
        let mut states = vec![process.owned()];
        for _ in 0..random.below(60) {
            if random.chance(3) && !process.held.is_empty() {
                process.give_back(random.index(process.held.len()));
            } else {
                process.ask(random.index(ASKING.len()), (1 + random.below(20)) << 21);
            }
            states.push(process.owned());
        }
        let counted: Vec<i128> = states
            .iter()
            .map(|state| {
                state.iter().filter(|(owner, _)| !owner.starts_with("memory:")).map(|(_, bytes)| bytes).sum()
            })
            .collect();
        let snapshot = process.snapshot();
        let history = DeviceHistory::new(&snapshot, DeviceId(0));
        for (at, state) in states.iter().enumerate() {
            let groups = history.top(memreel_snapshot::history::Moment(at as u32), By::Owner);
            let found: BTreeMap<String, i128> = groups
                .iter()
                .map(|group| match &group.site {
                    Site::Owner(owner) => (owner.to_string(), group.bytes.into()),
                    site => panic!("{site:?}"),
                })
                .collect();
            assert_eq!(found, *state, "seed {seed}, event {at}");
        }
        for peak in history.owner_peaks() {
            let of_state = |state: &BTreeMap<String, i128>| state.get(&peak.owner).copied().unwrap_or(0);
            let most = states.iter().map(of_state).max().unwrap();
            assert_eq!(i128::from(peak.bytes), most, "seed {seed}, {}", peak.owner);
            assert_eq!(
                states.iter().position(|state| of_state(state) == most),
                Some(peak.moment.n_entries())
            );
        }
        if states.len() > 1 {
            let [table] = &owners(&[&snapshot])[..] else { panic!("one device") };
            assert_eq!(rows(table, false), states[states.len() - 1], "seed {seed}");
            let most = counted.iter().copied().max().unwrap();
            assert_eq!(table.rows.iter().filter_map(|row| row.peak_bytes).sum::<i128>(), most, "seed {seed}");
            assert_eq!((table.used_now_bytes, table.used_peak_bytes), (None, None));
        }
    }
}

/// Two processes on one device, of which the first ends early; and a device of another number with the same UUID.
#[test]
fn processes_have_one_table_a_device() {
    let pause = || thread::sleep(Duration::from_millis(2));
    let (mut early, mut late) = (Process::new(), Process::new());
    early.recorder.describe_device(DeviceId(0), "H200", "GPU-1");
    late.recorder.describe_device(DeviceId(0), "H200", "GPU-1");
    early.ask(0, 4 << 20);
    late.ask(2, 6 << 20);
    late.ask(4, 2 << 20);
    pause();
    // The other process is one of the others.
    let others = UsageReport { other_processes_bytes: Some(13 << 20), ..UsageReport::default() };
    early.report(UsageReport { used_bytes: 20 << 20, pool_slack_bytes: 1, ..others });
    pause();
    late.report(UsageReport {
        used_bytes: 19 << 20,
        other_processes_bytes: Some(4 << 20),
        ..UsageReport::default()
    });
    // The first has ended when the last report comes.
    thread::sleep(Duration::from_millis(2100));
    late.report(UsageReport {
        used_bytes: 9 << 20,
        other_processes_bytes: Some(1 << 20),
        ..UsageReport::default()
    });
    let snapshots = [early.snapshot(), late.snapshot()];
    let [table] = &owners(&[&snapshots[0], &snapshots[1]])[..] else { panic!("one device") };
    assert_eq!((&*table.uuid, &table.parts[..]), ("GPU-1", &[0, 1][..]));
    assert_whole(table);
    let map = |pairs: &[(&str, i128)]| -> BTreeMap<String, i128> {
        pairs.iter().map(|(owner, mib)| ((*owner).to_owned(), mib << 20)).collect()
    };
    assert_eq!(rows(table, true), map(&[("nccl", 4), ("pytorch", 6), ("program", 2)]));
    assert_eq!(rows(table, false), map(&[("pytorch", 6), ("program", 2)]));
    assert_eq!(row(table, RowKind::OtherProcesses), [Some(1 << 20), Some(5 << 20)]);
    assert_eq!(row(table, RowKind::PoolSlack), [Some(0), Some(1)]);
    assert_eq!(row(table, RowKind::Unexplained), [Some(0), Some((3 << 20) - 1)]);
    let largest = table.rows.iter().find(|row| row.owner == "nccl").unwrap().largest.unwrap();
    let frames = snapshots[largest.part].stacks.frames(largest.stack).next().unwrap();
    assert_eq!((&*frames.name, largest.bytes), ("ncclCommInitRank", 4 << 20));
}

/// The devices of a merged file have new numbers, and the reports go with them.
#[test]
fn a_merged_file_has_the_same_table() {
    let mut all: Vec<Process> = (0..2).map(|_| Process::new()).collect();
    for (nth, process) in all.iter_mut().enumerate() {
        process.recorder.describe_device(DeviceId(0), "H200", ["GPU-1", "GPU-2"][nth]);
        process.ask(nth, 4 << 20);
        process.report(UsageReport { used_bytes: (5 + nth as u64) << 20, ..UsageReport::default() });
    }
    let snapshots: Vec<Snapshot> = all.iter().map(Process::snapshot).collect();
    let merged = Merged::new(snapshots.iter().map(Part::new)).unwrap();
    let whole = pickle::from_slice(&pickle::to_vec(&merged)).unwrap();
    assert!(merged.differing_settings().is_empty());
    let apart = owners(&snapshots.iter().collect::<Vec<_>>());
    let tables = owners(&[&whole]);
    assert_eq!(tables.iter().map(|table| table.device.0).collect::<Vec<_>>(), [0, 1]);
    for (table, apart) in tables.iter().zip(&apart) {
        assert_eq!((&table.uuid, table.used_now_bytes), (&apart.uuid, apart.used_now_bytes));
        assert_eq!(rows(table, false), rows(apart, false));
        assert_whole(table);
    }
}

/// Without the UUID, numbers decide; without a report, nothing is said about other processes.
#[test]
fn without_uuids_numbers_decide() {
    let mut all: Vec<Process> = (0..3).map(|_| Process::new()).collect();
    all.iter_mut().enumerate().for_each(|(nth, process)| process.ask(nth, (nth as u64 + 1) << 21));
    all[2].recorder.describe_device(DeviceId(0), "H200", "GPU-2");
    all[2].report(UsageReport { used_bytes: 1, ..UsageReport::default() });
    let snapshots: Vec<Snapshot> = all.iter().map(Process::snapshot).collect();
    let tables = owners(&snapshots.iter().collect::<Vec<_>>());
    let parts: Vec<(&str, &[usize])> = tables.iter().map(|table| (&*table.uuid, &table.parts[..])).collect();
    assert_eq!(parts, [("", &[0, 1][..]), ("GPU-2", &[2])]);
    assert!(tables[0].rows.iter().all(|row| row.kind == RowKind::Owner));
    assert_eq!(row(&tables[1], RowKind::Unexplained), [Some(1 - (6 << 20)); 2], "more is held than is used");
    assert_eq!(row(&tables[1], RowKind::OtherProcesses), [None; 2]);
    assert_whole(&tables[1]);
}

#[test]
fn a_file_of_nothing_has_an_empty_table() {
    let tables = owners(&[&Snapshot::default()]);
    assert_eq!((tables.len(), tables[0].device, tables[0].rows.len()), (1, DeviceId(0), 0));
    assert!(owners(&[]).is_empty());
}

/// The rows of tables, with the function that asked for the most of each.
fn shown(tables: &[DeviceOwners], snapshots: &[&Snapshot]) -> Vec<String> {
    let largest = |row: &memreel_snapshot::analysis::OwnerRow| {
        let largest = row.largest?;
        let frame = snapshots[largest.part].stacks.frames(largest.stack).next()?;
        Some((frame.name.to_string(), largest.bytes))
    };
    let rows = |table: &DeviceOwners| -> Vec<_> {
        let all = table.rows.iter().chain(&table.outside);
        all.map(|row| (row.owner.clone(), row.kind, row.now_bytes, row.peak_bytes, largest(row))).collect()
    };
    tables
        .iter()
        .map(|table| {
            let used = (table.used_now_bytes, table.used_peak_bytes, table.now_us, table.peak_us);
            format!("{:?} {:?} {:?} {used:?}", table.device, table.parts, rows(table))
        })
        .collect()
}

/// Also where a process changes more often than moments are kept.
#[test]
fn a_run_has_the_table_of_its_snapshots() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let n_processes = if seed % 2 == 0 { 1 } else { 3 };
        let n_steps = if n_processes == 1 { 1500 } else { 60 };
        let mut all: Vec<Process> = (0..n_processes).map(|_| Process::new()).collect();
        for _ in 0..n_steps {
            let process = &mut all[random.index(n_processes)];
            match random.below(5) {
                0..3 => process.ask(random.index(ASKING.len()), (1 + random.below(20)) << 21),
                3 if !process.held.is_empty() => process.give_back(random.index(process.held.len())),
                // Some runs have no reports.
                _ if seed % 4 < 2 && random.chance(9) => {
                    let used_bytes = process.counted() + random.below(1 << 24);
                    process.report(UsageReport { used_bytes, ..UsageReport::default() });
                }
                _ => {}
            }
        }
        let snapshots: Vec<Snapshot> = all.iter().map(Process::snapshot).collect();
        let snapshots: Vec<&Snapshot> = snapshots.iter().collect();
        let mut run = RunOwners::default();
        snapshots.iter().for_each(|snapshot| run.add(snapshot));
        let expected = shown(&owners(&snapshots), &snapshots);
        assert_eq!(shown(&run.tables(), &[run.stacks()]), expected, "seed {seed}");
    }
}
