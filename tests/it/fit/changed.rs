//! Changed programs: what is predicted for a change is what the changed program needs.

use std::sync::Arc;

use super::sized_recording::{model, snapshot};
use memreel::{
    Allocation, DeviceId, Reel, Snapshot,
    device::Simulated,
    recorder::{Context, Recording},
    snapshot::Frame,
    whatif::{Change, Replay, Requests},
};
use memreel_testing::{random::Random, seeds::seeds};

/// How a planted program differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Variant {
    AsIs,
    WithoutMasks,
    HalfLogits,
    Checkpointed,
}

/// A program of layers: each has scratch blocks, blocks that the backward pass needs, and a result.
struct Program {
    weights: Vec<u64>,
    n_layers: usize,
    scratch: Vec<u64>,
    kept: Vec<u64>,
    mask_bytes: u64,
    result_bytes: u64,
    logits_bytes: u64,
    gradient_bytes: u64,
}

impl Program {
    fn draw(random: &mut Random) -> Program {
        let mut bytes = |most: u64| 512 * (1 + random.below(most));
        let (weights, scratch) =
            ((0..4).map(|_| bytes(4000)).collect(), (0..2).map(|_| bytes(3000)).collect());
        let mut kept: Vec<u64> = (0..3).map(|_| bytes(8000)).collect();
        // What is freed first is not a cache that is dropped before the backward pass.
        kept.sort_unstable_by(|one, other| other.cmp(one));
        let [mask_bytes, result_bytes, logits_bytes, gradient_bytes] = [5000, 2000, 20_000, 2000].map(bytes);
        let n_layers = 2 + random.index(6);
        Program { weights, n_layers, scratch, kept, mask_bytes, result_bytes, logits_bytes, gradient_bytes }
    }

    fn run(&self, variant: Variant) -> Snapshot {
        let device = Arc::new(Simulated::new(1 << 50));
        let history = Recording::all().context(Context::None);
        let reel = Reel::builder().device(device).history(history).build().unwrap();
        let mut run = Run { reel, lines: Vec::new(), variant };
        let _weights: Vec<_> = self.weights.iter().map(|bytes| run.alloc(1, *bytes)).collect();
        for _ in 0..2 {
            self.step(&mut run);
        }
        let mut snapshot = run.reel.snapshot();
        stacks(&mut snapshot, &run.lines);
        snapshot
    }

    fn step(&self, run: &mut Run) {
        let mut layers = Vec::new();
        let mut results = Vec::new();
        for _ in 0..self.n_layers {
            let (kept, result) = (self.kept(run), self.result(run));
            results.push(result);
            layers.push(if run.variant == Variant::Checkpointed { Vec::new() } else { kept });
        }
        let half = if run.variant == Variant::HalfLogits { 2 } else { 1 };
        let logits = run.alloc(20, self.logits_bytes / half);
        drop(logits);
        let mut gradient = run.alloc(0, self.gradient_bytes);
        while let (Some(mut kept), Some(result)) = (layers.pop(), results.pop()) {
            drop(result);
            if run.variant == Variant::Checkpointed {
                kept = self.kept(run);
            }
            // The first block of the backward pass of a layer is freed before others are requested.
            drop(kept.remove(0));
            gradient = run.alloc(0, self.gradient_bytes);
            drop(kept);
        }
        drop(gradient);
    }

    /// The part of a layer that a checkpoint makes again.
    fn kept(&self, run: &mut Run) -> Vec<Allocation> {
        let mut kept = Vec::new();
        let scratch: Vec<_> =
            (10..).zip(&self.scratch).map(|(line, bytes)| run.alloc(line, *bytes)).collect();
        for (line, bytes) in (12..).zip(&self.kept) {
            kept.push(run.alloc(line, *bytes));
        }
        drop(scratch);
        kept
    }

    fn result(&self, run: &mut Run) -> Allocation {
        if run.variant != Variant::WithoutMasks {
            drop(run.alloc(15, self.mask_bytes));
        }
        run.alloc(16, self.result_bytes)
    }
}

struct Run {
    reel: Reel,
    lines: Vec<u64>,
    variant: Variant,
}

impl Run {
    fn alloc(&mut self, line: u64, bytes: u64) -> Allocation {
        self.lines.push(line);
        self.reel.alloc(bytes).unwrap()
    }
}

/// Gives each request the stack of its line: 10 to 16 are below the call of a layer, and 0 has none.
fn stacks(snapshot: &mut Snapshot, lines: &[u64]) {
    let mut lines = lines.iter();
    for entry in &mut snapshot.device_traces[0] {
        if entry.action != Some(memreel::Action::Alloc) {
            continue;
        }
        let line = *lines.next().unwrap();
        let call = |name: &str, line| Frame {
            name: name.into(),
            filename: "net/model.py".into(),
            line,
            ..Frame::default()
        };
        let calls = match line {
            0 => Vec::new(),
            10..=16 => vec![call("work", line), call("layer", 70), call("main", 9)],
            _ => vec![call("work", line), call("main", 9)],
        };
        let stacks = &mut snapshot.stacks;
        let frames: Vec<_> = calls.into_iter().map(|call| stacks.intern_frame(call)).collect();
        entry.stack = Some(stacks.intern_stack(&frames));
    }
}

/// Returns the peaks of a program that is replayed on a device without a limit, whose addresses fall: those of a recorded run
/// decide ties in another way.
fn peaks(requests: &Requests) -> [u64; 2] {
    let outcome = Replay::new(requests).run().unwrap().falling;
    [outcome.allocated_peak_bytes, outcome.reserved_peak_bytes]
}

#[test]
fn a_changed_program_is_the_program_that_was_run_so() {
    for seed in seeds("MEMREEL_FIT", 0..60) {
        let program = Program::draw(&mut Random::new(seed));
        let recorded = program.run(Variant::AsIs);
        let requests = Requests::new(&recorded, DeviceId(0)).unwrap();
        for (change, variant) in [
            (Change::without("work (model.py:15)"), Variant::WithoutMasks),
            (Change::scaled("net/model.py:20", 0.5).unwrap(), Variant::HalfLogits),
            (Change::freed_after_use("layer (model.py:70)"), Variant::Checkpointed),
        ] {
            let changed = requests.changed(&recorded, &change).unwrap();
            let run = program.run(variant);
            let right = Requests::new(&run, DeviceId(0)).unwrap();
            assert_eq!(changed.len(), right.len(), "{seed} {variant:?}");
            assert_eq!(peaks(&changed), peaks(&right), "{seed} {variant:?}");
        }
    }
}

#[test]
fn a_call_without_requests_is_refused() {
    let recorded = Program::draw(&mut Random::new(1)).run(Variant::AsIs);
    let requests = Requests::new(&recorded, DeviceId(0)).unwrap();
    for change in [Change::without("elsewhere"), Change::freed_after_use("work (model.py:20)")] {
        assert!(requests.changed(&recorded, &change).unwrap_err().is_misuse(), "{change:?}");
    }
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY, 1001.0] {
        assert!(Change::scaled("work", factor).unwrap_err().is_misuse(), "{factor}");
    }
}

/// A LLaMA was measured with a checkpoint around each layer too.
#[test]
fn a_checkpoint_has_the_measured_peak() {
    let model = model("llama");
    let recorded = snapshot(&model, 4);
    let requests = Requests::new(&recorded, DeviceId(0)).unwrap();
    let change = Change::freed_after_use("__call__ (modeling_layers.py:109)");
    let changed = requests.changed(&recorded, &change).unwrap();
    let measured = &model["checkpointed_peaks"]["4"];
    let [allocated, reserved] = peaks(&changed);
    let allocated_right = measured["allocated_peak"].as_u64().unwrap();
    let reserved_right = measured["reserved_peak"].as_u64().unwrap();
    assert!(allocated.abs_diff(allocated_right) * 50 < allocated_right, "{allocated} for {allocated_right}");
    assert!(reserved.abs_diff(reserved_right) * 50 < reserved_right, "{reserved} for {reserved_right}");
}
