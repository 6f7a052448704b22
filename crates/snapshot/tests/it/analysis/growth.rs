//! Which sites grew: leaks, bursts and larger steps, and what is none of them.

use std::collections::VecDeque;

use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{Claim, DeviceHistory, GrowthKind},
};

use super::questions::{E, MIB, lines, snapshot};

/// A trace of steps: blocks get rising addresses, and so does the time.
#[derive(Default)]
struct Program {
    entries: Vec<E<'static>>,
    n_blocks: u64,
}

impl Program {
    /// Allocates a block at a line, and returns its address.
    fn alloc(&mut self, line: u64, bytes: u64) -> u64 {
        self.n_blocks += 1;
        let address = self.n_blocks << 30;
        self.entries.push(("alloc", address, bytes, line));
        address
    }

    fn keep(&mut self, line: u64, bytes: u64) {
        self.alloc(line, bytes);
    }

    fn free(&mut self, address: u64, bytes: u64) {
        self.entries.push(("free_requested", address, bytes, 0));
        self.entries.push(("free_completed", address, bytes, 0));
    }

    /// A step with four lines that allocate blocks of these bytes, and free them.
    fn step(&mut self, bytes: u64) {
        let blocks: Vec<u64> = (10..14).map(|line| self.alloc(line, bytes)).collect();
        blocks.into_iter().for_each(|address| self.free(address, bytes));
    }

    fn snapshot(&self) -> Snapshot {
        snapshot(&self.entries, &[])
    }
}

/// Returns the lines that grew, with how and by how many MiB.
fn grown(snapshot: &Snapshot) -> Option<Vec<(u64, GrowthKind, u64)>> {
    let history = DeviceHistory::new(snapshot, DeviceId(0));
    let growths = history.growth_at(history.end())?;
    let sites = growths.sites.iter();
    Some(sites.map(|site| (lines(snapshot, &site.site), site.kind, site.bytes / MIB)).collect())
}

fn with_weights() -> Program {
    let mut program = Program::default();
    (1..5).for_each(|line| program.keep(line, 20 * MIB));
    program
}

/// An engine maps ranges (line 50), sleeps, and wakes up (line 60) at the same addresses or, as a control, at others.
fn wakes_up(at_same: bool) -> Snapshot {
    const BYTES: u64 = 300 * MIB;
    let mut program = Program::default();
    let at = |nth: u64, is_awake: bool| (100 + nth + if is_awake && !at_same { 50 } else { 0 }) << 32;
    let map = |program: &mut Program, address, line| {
        // The memory exists before it is mapped.
        let created = program.alloc(40, BYTES);
        program.free(created, BYTES);
        program.entries.push(("segment_map", address, BYTES, line));
        program.entries.push(("alloc", address, BYTES, line));
    };
    (0..10).for_each(|nth| map(&mut program, at(nth, false), 50));
    for nth in 0..10 {
        program.free(at(nth, false), BYTES);
        program.entries.push(("segment_unmap", at(nth, false), BYTES, 0));
    }
    program.keep(70, 1800 * MIB);
    (0..5).for_each(|nth| map(&mut program, at(nth, true), 60));
    program.snapshot()
}

#[test]
fn what_wakes_up_where_it_was_is_no_growth() {
    let lines = |snapshot: &Snapshot| {
        grown(snapshot).into_iter().flatten().map(|(line, ..)| line).collect::<Vec<_>>()
    };
    assert_eq!(lines(&wakes_up(false)), [60]);
    assert!(lines(&wakes_up(true)).is_empty());
}

#[test]
fn a_block_that_each_step_leaves_is_a_leak() {
    let mut program = with_weights();
    for _ in 0..20 {
        program.step(8 * MIB);
        program.alloc(77, 2 * MIB);
    }
    let snapshot = program.snapshot();
    let found = grown(&snapshot).unwrap();
    assert!(matches!(found[..], [(77, GrowthKind::Steady, 36..=38)]), "{found:?}");
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let leaks: Vec<_> =
        history.leaks().into_iter().map(|site| (lines(&snapshot, &site.site), site.is_leak())).collect();
    assert_eq!(leaks[0], (77, true));
    assert!(leaks[1..].iter().all(|(_, is_leak)| !is_leak), "weights: {leaks:?}");
}

/// The vector that names the blocks is moved when it is full, which makes rises that no request repeats.
#[test]
fn a_leak_in_a_growing_vector_goes_on_until_the_end() {
    for n_requests in [700, 1000, 1300, 1900] {
        let (mut program, mut room) = (Program::default(), 4);
        let mut vector = program.alloc(78, room * MIB / 4);
        for request in 0..n_requests {
            let answer = program.alloc(79, MIB / 8);
            program.free(answer, MIB / 8);
            if request == room {
                let larger = program.alloc(78, 2 * room * MIB / 4);
                program.free(vector, room * MIB / 4);
                (vector, room) = (larger, 2 * room);
            }
            program.keep(77, MIB);
        }
        let snapshot = program.snapshot();
        let history = DeviceHistory::new(&snapshot, DeviceId(0));
        let leak = history.leaks().into_iter().find(|site| site.is_leak()).unwrap();
        assert_eq!(lines(&snapshot, &leak.site), 77);
        let grown = leak.grown_bytes() / MIB;
        assert!((n_requests * 7 / 8..=n_requests).contains(&grown), "{grown} of {n_requests}");
    }
}

#[test]
fn what_one_line_takes_at_the_end_is_a_burst() {
    let mut program = with_weights();
    (0..20).for_each(|_| program.step(8 * MIB));
    let n_before = program.entries.len();
    (0..30).for_each(|_| program.keep(77, 4 * MIB));
    let snapshot = program.snapshot();
    assert_eq!(grown(&snapshot).unwrap(), [(77, GrowthKind::Late, 120)]);
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let growths = history.growth_at(history.end()).unwrap();
    assert_eq!((growths.sites[0].began.entry(), growths.sites[0].n_blocks), (Some(n_before), 30));
    assert_eq!(history.grown_blocks(&growths, history.end()).len(), 30);
}

#[test]
fn a_larger_step_is_no_leak() {
    let mut program = with_weights();
    (0..20).for_each(|_| program.step(8 * MIB));
    (10..14).for_each(|line| program.keep(line, 24 * MIB));
    let snapshot = program.snapshot();
    let found = grown(&snapshot).unwrap();
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.iter().all(|of| (of.1, of.2) == (GrowthKind::LargerStep, 16)), "{found:?}");
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    assert!(history.leaks().iter().all(|site| !site.is_leak()));
}

#[test]
fn warm_up_and_the_middle_of_a_step_are_no_growth() {
    let mut program = with_weights();
    for step in 0..40 {
        program.step(8 * MIB);
        if step < 4 {
            program.alloc(77, 4 * MIB);
        }
    }
    (10..13).for_each(|line| program.keep(line, 8 * MIB));
    assert_eq!(grown(&program.snapshot()), Some(vec![]));
}

#[test]
fn a_first_step_has_nothing_to_be_compared_with() {
    // A network of 40 layers: each keeps something for the way back, and frees a part.
    let mut program = with_weights();
    for _ in 0..40 {
        (10..13).for_each(|line| program.keep(line, 8 * MIB));
        let address = program.alloc(13, 8 * MIB);
        program.free(address, 8 * MIB);
    }
    let found = grown(&program.snapshot()).unwrap_or_default();
    assert!(found.iter().all(|of| of.1 != GrowthKind::Steady), "{found:?}");
    assert_eq!(grown(&with_weights().snapshot()), None);
}

/// Groups of layers, of which none has kept anything for as long as the one before it.
#[test]
fn layers_of_a_first_step_are_no_leak() {
    let mut program = with_weights();
    for group in 0..3 {
        for _ in 0..8 {
            (10..13).for_each(|line| program.keep(line, (4 + 4 * group) * MIB));
        }
        for _ in 0..20 {
            let address = program.alloc(13, 8 * MIB);
            program.free(address, 8 * MIB);
        }
    }
    let snapshot = program.snapshot();
    let found = grown(&snapshot).unwrap_or_default();
    assert!(found.is_empty(), "{found:?}");
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    assert!(history.leaks().iter().all(|site| site.claim != Claim::Leak && site.claim != Claim::Grew));
}

/// A cache whose entries are replaced at random: what a site holds more at the end is chance, because none of it is old. One that
/// keeps a few of its own is a leak.
#[test]
fn a_cache_with_random_eviction_is_no_leak() {
    let mut random = fastrand::Rng::with_seed(7);
    let (mut program, mut held) = (Program::default(), Vec::new());
    for turn in 0..60_000_u64 {
        let (line, bytes) = (random.u64(100..400), 512 * random.u64(1..2000));
        held.push((program.alloc(line, bytes), bytes));
        if held.len() > 2000 {
            let (address, bytes) = held.swap_remove(random.usize(..held.len()));
            program.free(address, bytes);
        }
        if turn % 200 == 0 {
            program.keep(7, MIB);
        }
    }
    let found = grown(&program.snapshot()).expect("it repeats itself");
    let steady: Vec<u64> =
        found.iter().filter(|of| of.1 == GrowthKind::Steady).map(|(line, ..)| *line).collect();
    assert_eq!(steady, [7], "{found:?}");
}

/// A ring is filled once. From then on each request frees the oldest block before it allocates, so that the last moment is
/// the only one from which on the ring is never below full.
#[test]
fn a_ring_that_replaces_its_blocks_is_no_leak() {
    let mut program = with_weights();
    let mut ring = VecDeque::new();
    for _ in 0..5000 {
        let scratch = program.alloc(20, MIB / 2);
        if ring.len() == 100 {
            program.free(ring.pop_front().unwrap(), MIB);
        }
        ring.push_back(program.alloc(30, MIB));
        program.free(scratch, MIB / 2);
    }
    assert_eq!(grown(&program.snapshot()), Some(Vec::new()));
}

/// Each captured graph keeps what it was captured with; that is no leak, however many graphs there are.
#[test]
fn what_captures_keep_is_no_leak() {
    let mut program = with_weights();
    for _ in 0..20 {
        program.step(8 * MIB);
        program.alloc(77, 2 * MIB);
    }
    let said = |pool: [u64; 2]| {
        let mut file = serde_json::to_value(program.snapshot()).unwrap();
        for entry in file["device_traces"][0].as_array_mut().unwrap() {
            let is_kept = entry["frames"][0]["line"] == 77;
            entry["pool_id"] = serde_json::json!(if is_kept { pool } else { [0, 0] });
        }
        let file: Snapshot = serde_json::from_value(file).unwrap();
        let history = DeviceHistory::new(&file, DeviceId(0));
        let site = history.leaks().into_iter().find(|site| lines(&file, &site.site) == 77).unwrap();
        let grew = history.growth_at(history.end()).unwrap().sites.len();
        (site.claim, site.made.map(|made| made.name()), grew)
    };
    assert_eq!(said([3, 0]), (Claim::Held, Some("a captured graph"), 0));
    assert_eq!(said([0, 3]), (Claim::Leak, None, 1), "a MemPool of the program");
    assert_eq!(said([0, 0]), (Claim::Leak, None, 1));
}
