//! Programs that run out of memory for a cause that was planted.

use std::sync::Arc;

use memreel::{
    Action, Allocation, Reel, Snapshot,
    device::Simulated,
    recorder::{Context, Recording},
    snapshot::Frame,
};
use memreel_testing::random::Random;

pub(super) const MIB: u64 = 1 << 20;

/// Why a program runs out of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Planted {
    /// The process has a limit, and the device has room.
    Limit,
    /// One line takes block after block in one step.
    Burst,
    /// Each step leaves a few blocks behind, from the first step or a later one on.
    Leak,
    /// One step is larger than those before it.
    LargerStep,
    /// Small blocks pin what large ones left free.
    Fragmentation,
    /// Another process takes what was free.
    OtherProcess,
    /// The program needs more than there is.
    PlainSize,
    /// A leak in a process that has a limit, while the device has room.
    LimitAndLeak,
    /// Two lines leave blocks behind in each step.
    TwoLeaks,
    /// A leak, and another process that takes half of what was free.
    LeakAndOtherProcess,
}

/// What runs, and how large it is.
#[derive(Clone, Debug)]
pub(super) struct Program {
    weights: Vec<u64>,
    activations: Vec<u64>,
    has_optimizer: bool,
    is_in_scopes: bool,
    pub(super) n_steps: usize,
}

impl Program {
    pub(super) fn new(random: &mut Random) -> Program {
        let sizes =
            |random: &mut Random, n: usize| (0..n).map(|_| 256 * 1024 * (1 + random.below(96))).collect();
        let (n_weights, n_activations) = (4 + random.index(12), 6 + random.index(16));
        Program {
            weights: sizes(random, n_weights),
            activations: sizes(random, n_activations),
            has_optimizer: random.chance(2),
            is_in_scopes: random.chance(2),
            n_steps: 3 + random.index(8),
        }
    }

    /// Returns the most bytes that are reserved without a cause to fail.
    pub(super) fn peak_bytes(&self) -> u64 {
        let mut run = Run::new(self, u64::MAX >> 20, None);
        run.normal(self.n_steps).expect("the device is never full");
        run.reel.allocators()[0].stats().reserved_bytes.all.peak.cast_unsigned()
    }
}

/// The request of a world failed.
#[derive(Debug)]
pub(super) struct Failed;

/// A program that runs. The lines of its code are numbers.
pub(super) struct Run<'p> {
    program: &'p Program,
    pub(super) device: Arc<Simulated>,
    pub(super) reel: Reel,
    /// By alloc and failed request, the line that made it.
    lines: Vec<u64>,
    kept: Vec<Allocation>,
    n_steps: usize,
}

pub(super) const PLANTED_LINE: u64 = 777;
pub(super) const SECOND_LINE: u64 = 779;
const PIN_LINE: u64 = 778;

impl<'p> Run<'p> {
    pub(super) fn new(program: &'p Program, device_bytes: u64, limit_bytes: Option<u64>) -> Run<'p> {
        let device = Arc::new(Simulated::new(device_bytes));
        let history = Recording::all().context(Context::None);
        let reel = Reel::builder().device(device.clone()).history(history).build().unwrap();
        reel.allocators()[0].set_memory_limit(limit_bytes);
        Run { program, device, reel, lines: Vec::new(), kept: Vec::new(), n_steps: 0 }
    }

    fn alloc(&mut self, line: u64, bytes: u64) -> Result<Allocation, Failed> {
        self.lines.push(line);
        self.reel.alloc(bytes).map_err(|_| Failed)
    }

    pub(super) fn keep(&mut self, line: u64, bytes: u64) -> Result<(), Failed> {
        let block = self.alloc(line, bytes)?;
        self.kept.push(block);
        Ok(())
    }

    /// The weights and a number of steps.
    pub(super) fn normal(&mut self, n_steps: usize) -> Result<(), Failed> {
        for (line, bytes) in (100..).zip(self.program.weights.clone()) {
            self.keep(line, bytes)?;
        }
        (0..n_steps).try_for_each(|_| self.step(1.0, |_| Ok(())))
    }

    /// A step whose activations have so many times their usual size. `also` runs between its halves.
    pub(super) fn step(
        &mut self,
        times: f64,
        also: impl FnOnce(&mut Self) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        let _scope = self.program.is_in_scopes.then(|| self.reel.scope("step"));
        let larger = |bytes: u64| (bytes as f64 * times) as u64;
        let mut held = Vec::new();
        for (line, bytes) in (200..).zip(self.program.activations.clone()) {
            held.push(self.alloc(line, larger(bytes))?);
            drop(self.alloc(line + 100, larger(bytes / 2))?);
        }
        also(self)?;
        for (line, bytes) in (400..).zip(self.program.activations.clone()) {
            drop(self.alloc(line, larger(bytes))?);
            held.pop();
        }
        if self.program.has_optimizer && self.n_steps == 0 {
            for (line, bytes) in (500..).zip(self.program.weights.clone()) {
                self.keep(line, bytes)?;
            }
        }
        self.n_steps += 1;
        Ok(())
    }

    /// Steps that leave a block of each of these lines behind, until a request fails.
    pub(super) fn leak(&mut self, lines: &[u64], bytes: u64) -> Result<(), Failed> {
        loop {
            self.step(1.0, |run| lines.iter().try_for_each(|line| run.keep(*line, bytes)))?;
        }
    }

    /// Fills the device with small blocks, frees four of five, so that some are left in every segment, and requests a large one.
    pub(super) fn fragment(&mut self) -> Result<(), Failed> {
        let mut blocks = Vec::new();
        while let Ok(block) = self.alloc(PIN_LINE, 2 * MIB) {
            blocks.push(block);
        }
        blocks.retain(|block| (block.address().0 / (2 * MIB)).is_multiple_of(5));
        self.kept.append(&mut blocks);
        self.keep(PLANTED_LINE, 64 * MIB)
    }

    /// Returns the snapshot, in which each alloc and failed request has the line that made it.
    pub(super) fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.reel.snapshot();
        let mut lines = self.lines.iter();
        let Snapshot { stacks, device_traces, .. } = &mut snapshot;
        for entry in &mut device_traces[0] {
            if matches!(entry.action, Some(Action::Alloc | Action::Oom)) {
                let line = *lines.next().expect("a line for each request");
                let frame = Frame {
                    name: "step".into(),
                    filename: "/home/me/train.py".into(),
                    line,
                    ..Frame::default()
                };
                let frame = stacks.intern_frame(frame);
                entry.stack = Some(stacks.intern_stack(&[frame]));
            }
        }
        assert_eq!(lines.next(), None, "each request has an entry");
        snapshot
    }
}
