//! Which sites grew: leaks, bursts and larger steps, and what is none of them.

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
