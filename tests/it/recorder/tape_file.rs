//! Tapes in files: what a damaged, cut or foreign one gives, and where the file cannot be had.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use memreel::{
    Action, Address, BlockState, DeviceId, PoolId, Recovered, Reel, StreamId,
    device::Simulated,
    integrate::{Event, StackId},
    recorder::{Context, Recorder, Recording},
    snapshot::{Snapshot, TraceEntry},
    validate::{Severity, validate},
};

use super::tape_damage::{HEADER_BYTES, SLOT_BYTES, damage, recorded, recover, tape};
use crate::{own_process, random::Random};

fn has_errors(snapshot: &Snapshot) -> bool {
    validate(snapshot).iter().any(|finding| finding.severity == Severity::Error)
}

/// Equal, but for the event that a snapshot of the living process records of itself.
fn traces(snapshot: &Snapshot) -> Vec<(Option<Action>, u64, u64, usize)> {
    let trace = &snapshot.device_traces[0];
    let of = |entry: &memreel::snapshot::TraceEntry| {
        (entry.action, entry.address.0, entry.size, snapshot.frames(entry.stack).count())
    };
    trace.iter().map(of).collect()
}

#[test]
fn a_file_has_what_the_process_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let reel = recorded(&path, 300);
    assert_eq!(reel.recorder().tape().as_deref(), Some(&*path));
    let recovered = Recovered::read(&path).unwrap();
    assert_eq!(recovered.problems(), [""; 0]);
    assert!(recovered.is_running() && !recovered.is_closed());
    assert_eq!(recovered.process(), std::process::id());
    let (past, live) = (recovered.snapshot(), reel.snapshot());
    assert_eq!(traces(&past), traces(&live));
    assert_eq!(past.external_annotations.len(), live.external_annotations.len());
    let blocks = |snapshot: &Snapshot| -> Vec<_> {
        let all = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
        all.map(|block| (block.address, block.size, block.state, snapshot.frames(block.stack).count()))
            .collect()
    };
    assert_eq!(blocks(&past), blocks(&live));
    let name =
        |snapshot: &Snapshot| snapshot.frames(snapshot.device_traces[0][0].stack).next().unwrap().clone();
    assert_eq!((&name(&past).name, name(&past).line), (&name(&live).name, name(&live).line));
    reel.record_history(&Recording::off());
    let closed = Recovered::read(&path).unwrap();
    assert!(closed.is_closed());
    let closed = traces(&closed.snapshot());
    assert_eq!(
        closed[..closed.len() - 1],
        traces(&past),
        "the file keeps what it has, and the event of `snapshot`"
    );
}

/// A file begins with the blocks that there are, and a small ring folds its events into them.
#[test]
fn blocks_from_before_the_oldest_event_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let reel = Reel::builder().device(Simulated::new(1 << 40)).build().unwrap();
    let before = reel.alloc(5000).unwrap();
    reel.record_history(&Recording::all().max_entries(2000).tape(&path));
    let kept = reel.alloc(7000).unwrap();
    (0..20_000).for_each(|_| drop(reel.alloc(600).unwrap()));
    let recovered = Recovered::read(&path).unwrap();
    assert_eq!(recovered.problems(), [""; 0]);
    let snapshot = recovered.snapshot();
    assert!(snapshot.device_traces[0].len() <= 2000);
    let requested: Vec<u64> = snapshot
        .segments
        .iter()
        .flat_map(|segment| &segment.blocks)
        .filter(|block| block.state != Some(BlockState::Inactive))
        .map(|block| block.requested_size)
        .collect();
    assert_eq!(requested, [5000, 7000]);
    assert!(!has_errors(&snapshot));
    drop((before, kept));
}

#[test]
fn a_cut_file_is_recovered_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let reel = recorded(&path, 900);
    drop(reel);
    let whole = fs::read(&path).unwrap();
    let used = HEADER_BYTES + 8 * SLOT_BYTES;
    let (mut random, cut, mut n_whole) = (Random::new(5), folder.path().join("cut.tape"), 0);
    let all = Recovered::read(&path).unwrap().n_events();
    for number in 0..1000 {
        let len = random.below(used as u64 + 1000) as usize;
        fs::write(&cut, &whole[..len]).unwrap();
        match Recovered::read(&cut) {
            Err(error) => assert!(error.is_malformed() && len < HEADER_BYTES, "{len} bytes: {error}"),
            Ok(recovered) => {
                assert!(recovered.n_events() <= all);
                n_whole += usize::from(recovered.n_events() == all);
                // A name for each address is looked up; a few of the files are enough.
                if number % 200 == 0 {
                    let _ = validate(&recovered.snapshot());
                }
            }
        }
    }
    assert!(n_whole > 5 && n_whole < 1000, "{n_whole}");
}

#[test]
fn a_changed_file_is_a_snapshot_or_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let whole = tape(&path);
    let (mut random, changed, mut n_reported) = (Random::new(6), folder.path().join("changed.tape"), 0);
    for number in 0..500 {
        let mut bytes = whole.clone();
        damage(&mut bytes, &mut random);
        // Names are looked up for a snapshot; a few are enough.
        if let Ok(recovered) = recover(&bytes, &changed, number % 100 == 0) {
            n_reported += usize::from(!recovered.problems().is_empty());
        }
    }
    assert!(n_reported > 20, "{n_reported} reports");
}

#[test]
fn other_files_and_versions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    drop(recorded(&path, 5));
    let whole = fs::read(&path).unwrap();
    let other = folder.path().join("other.tape");
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        fs::write(&other, bytes).unwrap();
        Recovered::read(&other).unwrap_err().to_string()
    };
    assert!(refused(&|bytes| bytes[16] = 9).contains("version 9"));
    assert!(refused(&|bytes| bytes[20..24].reverse()).contains("byte order"));
    assert!(refused(&|bytes| bytes[33] ^= 1).contains("damaged"));
    assert!(refused(&|bytes| bytes[3] = b'x').contains("not a tape"));
    assert!(refused(&|bytes| bytes.truncate(100)).contains("100 bytes"));
    assert!(Recovered::is_tape(&path) && !Recovered::is_tape("Cargo.toml"));
    assert!(Recovered::read(folder.path().join("missing")).unwrap_err().is_io());
}

/// A heap does not know the segments of its memory: they are runs of adjacent pages, as in its own snapshots.
#[test]
fn blocks_without_segments_are_in_runs_of_pages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all().context(Context::None).max_entries(1500).tape(&path));
    let track = recorder.track(DeviceId(0));
    let record = |action, address, size_bytes| {
        let (stream, pool, stack) = (StreamId::DEFAULT, PoolId::DEFAULT, StackId::NONE);
        track.record(Event { action, address: Address(address), size_bytes, stream, pool, stack });
    };
    for number in 0..3000 {
        record(Action::Alloc, 0x10_0000 + number % 100 * 64, 60);
        if number != 2999 {
            record(Action::FreeRequested, 0x10_0000 + number % 100 * 64, 60);
            record(Action::FreeCompleted, 0x10_0000 + number % 100 * 64, 60);
        }
    }
    record(Action::Alloc, 0x80_0000, 5000);
    let snapshot = Recovered::read(&path).unwrap().snapshot();
    assert!(!has_errors(&snapshot), "{:?}", validate(&snapshot));
    let sizes: Vec<u64> = snapshot.segments.iter().map(|segment| segment.total_size).collect();
    assert_eq!(sizes, [2 * 4096, 2 * 4096]);
    let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
    let live: Vec<u64> =
        blocks.filter(|block| block.state != Some(BlockState::Inactive)).map(|block| block.size).collect();
    assert_eq!(live, [60, 5000]);
}

/// The tape of the run before may be that of a crash.
#[test]
fn a_file_that_exists_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new").join("run.tape");
    drop(recorded(&path, 30));
    let n_events = Recovered::read(&path).unwrap().n_events();
    drop(recorded(&path, 5));
    let old = Recovered::read(folder.path().join("new").join("run.tape.old")).unwrap();
    assert_eq!(old.n_events(), n_events);
    assert!(Recovered::read(&path).unwrap().n_events() < n_events);
}

#[test]
fn without_a_file_recording_goes_on_in_memory() {
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all().tape("/proc/none/run.tape"));
    assert_eq!(recorder.tape(), None);
    let ledger = recorder.ledger(DeviceId(0));
    ledger.alloc(Address(4096), 512, StreamId::DEFAULT).unwrap();
    assert_eq!(recorder.n_events(DeviceId(0)), 2);
}

/// Ends threads, also where the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reading takes nothing away from a process that records with several threads, and gives a moment of it.
#[test]
fn a_tape_is_read_while_threads_record() {
    const N_READINGS: usize = 20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    // Without stacks, so that the time goes into reading and not into names.
    let history = Recording::all().context(Context::None).max_entries(20_000).tape(&path);
    let reel = Reel::builder().device(Simulated::new(1 << 40)).history(history).build().unwrap();
    let (is_done, mut n_whole) = (AtomicBool::new(false), 0);
    thread::scope(|scope| {
        let _ends = Ends(&is_done);
        for thread in 0..2 {
            let (reel, is_done) = (&reel, &is_done);
            scope.spawn(move || {
                while !is_done.load(Ordering::Relaxed) {
                    (0..50).for_each(|_| drop(reel.alloc(600 + thread * 1024).unwrap()));
                    thread::sleep(Duration::from_millis(2));
                }
            });
        }
        for _ in 0..N_READINGS {
            let recovered = Recovered::read(&path).unwrap();
            if recovered.problems().iter().any(|problem| problem.contains("faster than they could be read")) {
                continue;
            }
            assert_eq!(recovered.problems(), [""; 0]);
            let snapshot = recovered.snapshot();
            assert!(!has_errors(&snapshot), "{:?}", validate(&snapshot));
            n_whole += 1;
        }
    });
    assert!(n_whole > N_READINGS / 2, "{n_whole} of {N_READINGS} readings are whole");
}

/// The bytes of all notes in a file.
fn n_bytes_of_notes(path: &Path) -> u64 {
    const NOTES: u64 = 3;
    let bytes = fs::read(path).unwrap();
    let word = |slot: &[u8], at: usize| u64::from_ne_bytes(slot[8 * at..8 * at + 8].try_into().unwrap());
    let slots = bytes[HEADER_BYTES..].chunks_exact(SLOT_BYTES);
    slots.filter(|slot| word(slot, 0) == NOTES).map(|slot| word(slot, 3)).sum()
}

/// The list of live blocks is written again and again, and takes its place in the file from the one before.
#[test]
fn lists_of_live_blocks_do_not_fill_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    let history = Recording::all().context(Context::None).max_entries(1).tape(&path);
    let reel = Reel::builder().device(Simulated::new(1 << 40)).history(history).build().unwrap();
    let run = |n_rounds: usize| {
        for _ in 0..n_rounds {
            (0..700).for_each(|_| drop(reel.alloc(600).unwrap()));
            thread::sleep(Duration::from_millis(2));
        }
        n_bytes_of_notes(&path)
    };
    let (first, later) = (run(20), run(200));
    assert!(later < first + 300, "{first} bytes of notes, and later {later}");
}

/// The most memory that the process has had.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A damaged event may name any stack and any context; those that the tape lacks cost no memory.
#[test]
fn numbers_that_a_tape_lacks_cost_no_memory() {
    const EVENTS: u64 = 1;
    let limit = Duration::from_secs(60);
    own_process::run(module_path!(), "numbers_that_a_tape_lacks_cost_no_memory", limit, || {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = tape(&folder.path().join("run.tape"));
        // Another file: the keeper of that one may still read it, and a file that shrinks ends its reader.
        let path = folder.path().join("changed.tape");
        drop(recover(&bytes, &path, true));
        let slots = (HEADER_BYTES..bytes.len()).step_by(SLOT_BYTES);
        let of_events: Vec<usize> = slots.filter(|at| bytes[*at..*at + 8] == EVENTS.to_ne_bytes()).collect();
        let numbers = of_events.last().unwrap() + 128 + 2 * 8;
        bytes[numbers..numbers + 8].copy_from_slice(&(1_u64 << 26 | 1 << (32 + 25)).to_ne_bytes());
        // The files in which names are looked up take memory too.
        let before_kib = peak_kib();
        let snapshot = recover(&bytes, &path, true).unwrap().snapshot();
        let has_frames = |entry: &&TraceEntry| snapshot.frames(entry.stack).next().is_some();
        let trace = &snapshot.device_traces[0];
        assert_eq!(
            trace.len() - trace.iter().filter(has_frames).count(),
            1,
            "the damaged event has no stack"
        );
        let more_kib = peak_kib() - before_kib;
        assert!(more_kib < 100 << 10, "{more_kib} KiB");
    });
}
