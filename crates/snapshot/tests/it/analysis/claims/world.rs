//! Programs that train or serve, with what was planted in them.

use memreel_snapshot::Snapshot;
use memreel_testing::random::Random;
use serde_json::{Value, json};

pub(super) const MIB: u64 = 1 << 20;

/// The line of the planted leak.
pub(super) const LEAK: u64 = 777;

/// What was planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Planted {
    // Leaks.
    EachStep,
    EachThirdStep,
    Late,
    EachEpoch,
    RingOfALeak,
    // What grew too short a time to be one.
    LastTwoSteps,
    // None.
    OneStep,
    FirstForward,
    FirstBackward,
    FirstOptimizerStep,
    Loading,
    Captures,
    ReplacedStates,
    VariableLengths,
    Curriculum,
    Accumulation,
    TwoModels,
    WarmUp,
    CacheWithEviction,
    ManySteps,
    CheckpointedWindow,
    ReplacedBufferWindow,
}

use Planted::*;

pub(super) const ALL: [Planted; 22] = [
    EachStep,
    EachThirdStep,
    Late,
    EachEpoch,
    RingOfALeak,
    LastTwoSteps,
    OneStep,
    FirstForward,
    FirstBackward,
    FirstOptimizerStep,
    Loading,
    Captures,
    ReplacedStates,
    VariableLengths,
    Curriculum,
    Accumulation,
    TwoModels,
    WarmUp,
    CacheWithEviction,
    ManySteps,
    CheckpointedWindow,
    ReplacedBufferWindow,
];

impl Planted {
    pub(super) fn is_leak(self) -> bool {
        matches!(self, EachStep | EachThirdStep | Late | EachEpoch | RingOfALeak)
    }
}

/// A call: its name, file and line.
type Call = (&'static str, &'static str, u64);

const MODULE: Call = ("_call_impl", "/env/torch/nn/modules/module.py", 1784);

/// A block in use.
#[derive(Clone)]
struct Block {
    address: u64,
    bytes: u64,
    frames: Value,
}

/// A program that runs.
pub(super) struct World<'r> {
    random: &'r mut Random,
    entries: Vec<Value>,
    live: Vec<Block>,
    n_blocks: u64,
    layers: Vec<u64>,
    weights: Vec<u64>,
    states: Vec<u64>,
    /// Whether the way back has no stacks, as in Python's.
    is_bare: bool,
    is_in_scopes: bool,
    scope: Option<&'static str>,
}

impl<'r> World<'r> {
    pub(super) fn new(random: &'r mut Random) -> World<'r> {
        let n = 4 + random.index(12);
        let layers = (0..n).map(|_| MIB * (8 + random.below(56))).collect();
        let (is_bare, is_in_scopes) = (random.chance(2), random.chance(2));
        World {
            random,
            entries: Vec::new(),
            live: Vec::new(),
            n_blocks: 0,
            layers,
            weights: Vec::new(),
            states: Vec::new(),
            is_bare,
            is_in_scopes,
            scope: None,
        }
    }

    fn alloc(&mut self, calls: &[Call], bytes: u64) -> u64 {
        self.n_blocks += 1;
        let address = self.n_blocks << 32;
        let frames: Value = calls
            .iter()
            .map(|(name, filename, line)| json!({"name": name, "filename": filename, "line": line}))
            .collect();
        self.entry("alloc", address, bytes, &frames);
        self.live.push(Block { address, bytes, frames });
        address
    }

    fn free(&mut self, address: u64) {
        let at = self.live.iter().position(|block| block.address == address).expect("the block is live");
        let block = self.live.remove(at);
        for action in ["free_requested", "free_completed"] {
            self.entry(action, address, block.bytes, &json!([]));
        }
    }

    fn entry(&mut self, action: &str, address: u64, bytes: u64, frames: &Value) {
        let key = if action == "oom" { "device_free" } else { "addr" };
        let time_us = self.entries.len() + 1;
        let mut entry = json!({"action": action, key: address, "size": bytes, "stream": 0, "time_us": time_us, "frames": frames});
        if let Some(scope) = self.scope {
            entry["user_metadata"] = json!(scope);
        }
        self.entries.push(entry);
    }

    pub(super) fn load(&mut self) {
        for layer in 0..self.layers.len() {
            let calls: &[Call] =
                &[("load_weights", "train.py", 30 + layer as u64 % 2), ("<module>", "train.py", 5)];
            let staged = self.alloc(
                &[("read", "train.py", 28), ("load_weights", "train.py", 29), ("<module>", "train.py", 5)],
                self.layers[layer],
            );
            let weight = self.alloc(calls, self.layers[layer] / 4);
            self.weights.push(weight);
            self.free(staged);
        }
    }

    /// The layers keep activations, and free more than they keep if `temporary` is large.
    fn forward(&mut self, model: u64, times: f64) -> Vec<u64> {
        let outer = [("forward", "model.py", 60 + model), MODULE, ("<module>", "train.py", 12 + model)];
        let input = self.alloc(&[("batch", "data.py", 3), ("<module>", "train.py", 11 + model)], MIB);
        let mut kept = vec![
            input,
            self.alloc(
                &[
                    &[("forward", "model.py", 10 + model)][..],
                    &[MODULE],
                    &[("forward", "model.py", 59 + model)],
                    &outer[1..],
                ]
                .concat(),
                4 * MIB,
            ),
        ];
        for layer in 0..self.layers.len() {
            let bytes = (self.layers[layer] as f64 * times) as u64;
            let inner = |line| [&[("forward", "model.py", line), MODULE][..], &outer].concat();
            let of_temporary = bytes / 2 + self.random.below(bytes);
            let temporary = self.alloc(&inner(21 + model), of_temporary);
            kept.push(self.alloc(&inner(20 + model), bytes));
            self.free(temporary);
        }
        kept
    }

    fn backward(&mut self, mut kept: Vec<u64>) -> Vec<u64> {
        let bare: &[Call] = &[];
        let named: &[Call] = &[
            ("torch::autograd::generated::MmBackward0::apply", "", 0),
            ("torch::autograd::Engine::thread_main", "", 0),
        ];
        let calls = if self.is_bare { bare } else { named };
        let mut gradients = Vec::new();
        for layer in (0..self.layers.len()).rev() {
            let temporary = self.alloc(calls, self.layers[layer] / 2 + 512);
            gradients.push(self.alloc(calls, self.layers[layer] / 4));
            self.free(temporary);
            self.free(kept.pop().expect("an activation for each layer"));
        }
        kept.into_iter().for_each(|block| self.free(block));
        gradients
    }

    /// The states of an optimizer, for which those of before are given back.
    fn optimize(&mut self, is_new: bool) {
        for layer in 0..self.layers.len() {
            let in_step = |line| {
                [
                    ("_init_group", "/env/torch/optim/adamw.py", line),
                    ("step", "/env/torch/optim/adamw.py", 232),
                    ("<module>", "train.py", 16),
                ]
            };
            if is_new {
                let states = [176, 180].map(|line| self.alloc(&in_step(line), self.layers[layer] / 4));
                self.states.extend(states);
            }
            let temporary = self.alloc(
                &[
                    ("_single_tensor_adamw", "/env/torch/optim/adamw.py", 400),
                    ("step", "/env/torch/optim/adamw.py", 240),
                    ("<module>", "train.py", 16),
                ],
                self.layers[layer] / 4,
            );
            self.free(temporary);
        }
    }

    fn step(&mut self, model: u64, times: f64) {
        self.scope = self.is_in_scopes.then_some("step");
        let kept = self.forward(model, times);
        let gradients = self.backward(kept);
        let is_new = self.states.is_empty();
        self.optimize(is_new);
        gradients.into_iter().for_each(|block| self.free(block));
        self.scope = None;
        // Outside of the scopes, so that steps do not run together.
        let loss = self.alloc(&[("log", "train.py", 17), ("<module>", "train.py", 17)], 512);
        self.free(loss);
    }

    fn leak(&mut self, bytes: u64) {
        self.alloc(&[("remember", "train.py", LEAK), ("<module>", "train.py", 18)], bytes);
    }

    pub(super) fn run(&mut self, planted: Planted) {
        let n = 6 + self.random.index(20);
        let leaked = MIB * (1 + self.random.below(8));
        match planted {
            Loading | FirstForward | FirstBackward | FirstOptimizerStep | OneStep | Captures => {
                return self.run_once(planted);
            }
            CheckpointedWindow | ReplacedBufferWindow => return self.run_cut(planted),
            _ => self.load(),
        }
        let first = if planted == Late { n - 4 } else { self.random.index(n / 3) };
        // A leak grows in three repeats at least.
        let n_more = match planted {
            EachEpoch => 12,
            EachThirdStep => 4,
            _ => 0,
        };
        for at in 0..n + n_more {
            match planted {
                VariableLengths => {
                    let times = 0.3 + self.random.below(100) as f64 / 60.0;
                    self.step(0, times);
                }
                Curriculum => self.step(0, 0.3 + at as f64 / 10.0),
                TwoModels => self.step(40 * (at as u64 % 2), if at % 2 == 0 { 1.0 } else { 0.4 }),
                Accumulation => self.accumulate(),
                ReplacedStates => {
                    self.step(0, 1.0);
                    self.replace(at);
                }
                CacheWithEviction => {
                    self.step(0, 1.0);
                    let new = self.alloc(&[("cache", "train.py", 90), ("<module>", "train.py", 19)], 3 * MIB);
                    let old = std::mem::replace(&mut self.weights[at % 3], new);
                    if at >= 3 {
                        self.free(old);
                    }
                }
                _ => self.step(0, 1.0),
            }
            let leaks = match planted {
                EachStep | RingOfALeak | Late => at >= first,
                EachThirdStep => at % 3 == 2,
                EachEpoch => at % 5 == 4,
                LastTwoSteps => at + 2 >= n,
                WarmUp => at < 2,
                _ => false,
            };
            if leaks {
                self.leak(leaked);
            }
        }
    }

    /// Programs whose first step does not end, or is the only one.
    fn run_once(&mut self, planted: Planted) {
        if planted != OneStep || self.random.chance(2) {
            self.load();
        }
        let n = self.layers.len() as u64;
        match planted {
            Loading => {}
            Captures => {
                for size in 0..5 + n {
                    let calls = |line| {
                        [
                            ("forward", "model.py", line),
                            MODULE,
                            ("capture", "graphs.py", 40),
                            ("capture_all", "graphs.py", 20),
                            ("<module>", "serve.py", 9),
                        ]
                    };
                    let temporary = self.alloc(&calls(21), MIB * (4 + size));
                    self.alloc(&calls(20), MIB * (1 + size));
                    self.free(temporary);
                }
            }
            FirstForward => drop(self.forward(0, 1.0)),
            FirstBackward => {
                let mut kept = self.forward(0, 1.0);
                let later = kept.split_off(2);
                let half = later.len() / 2;
                self.half_back(later, half);
            }
            FirstOptimizerStep => {
                let kept = self.forward(0, 1.0);
                self.backward(kept);
                self.optimize(true);
            }
            _ => self.step(0, 1.0),
        }
    }

    fn half_back(&mut self, mut kept: Vec<u64>, n: usize) {
        let calls: &[Call] = if self.is_bare {
            &[]
        } else {
            &[
                ("torch::autograd::generated::MmBackward0::apply", "", 0),
                ("torch::autograd::Engine::thread_main", "", 0),
            ]
        };
        for _ in 0..n {
            let bytes = self.layers[kept.len() - 1];
            self.alloc(calls, bytes / 4);
            self.free(kept.pop().expect("an activation"));
        }
    }

    fn accumulate(&mut self) {
        let mut gradients = Vec::new();
        for micro in 0..4 {
            let kept = self.forward(0, 1.0);
            let made = self.backward(kept);
            match micro {
                0 => gradients = made,
                _ => made.into_iter().for_each(|block| self.free(block)),
            }
        }
        let is_new = self.states.is_empty();
        self.optimize(is_new);
        gradients.into_iter().for_each(|block| self.free(block));
    }

    /// Another copy takes the place of a weight.
    fn replace(&mut self, at: usize) {
        let at = at % self.weights.len();
        let bytes = self.layers[at] / 4;
        let new = self.alloc(&[("update", "ema.py", 8), ("<module>", "train.py", 18)], bytes);
        let old = std::mem::replace(&mut self.weights[at], new);
        self.free(old);
    }

    /// A run of which a ring has a piece, which begins and ends within a step.
    fn run_cut(&mut self, planted: Planted) {
        self.load();
        if planted == ReplacedBufferWindow {
            return self.generate();
        }
        self.is_bare |= self.random.chance(2);
        for _ in 0..self.random.index(3) {
            self.step(0, 1.0);
        }
        let begun = self.entries.len();
        let kept = self.forward(0, 1.0);
        let first = begun + self.random.index(self.entries.len() - begun);
        let n = 2 + self.random.index(self.layers.len() - 1);
        self.checkpointed_backward(kept, n);
        if self.random.chance(2) {
            self.entries.drain(..first);
        }
    }

    /// The way back of some layers, each of which computes its activations again.
    fn checkpointed_backward(&mut self, mut kept: Vec<u64>, n: usize) {
        const CHECKPOINT: &str = "/env/torch/utils/checkpoint.py";
        let again = |line| {
            [
                ("forward", "model.py", line),
                MODULE,
                ("recompute_fn", CHECKPOINT, 1607),
                ("unpack_hook", CHECKPOINT, 1173),
            ]
        };
        for layer in (0..self.layers.len()).rev().take(n) {
            let bytes = self.layers[layer];
            let activations = [20, 21, 22].map(|line| self.alloc(&again(line), bytes));
            // Each layer has the same gradients.
            let temporary = self.alloc(&[], bytes / 2 + 512);
            [2 * MIB, 8 * MIB, 8 * MIB, 4096].into_iter().for_each(|bytes| {
                self.alloc(&[], bytes);
            });
            self.free(temporary);
            activations.into_iter().for_each(|block| self.free(block));
            self.free(kept.pop().expect("an activation for each layer"));
        }
    }

    /// Each token makes a new buffer, a little larger than the one before, in place of it.
    fn generate(&mut self) {
        let outer = [("generate", "utils.py", 2802), ("<module>", "serve.py", 36)];
        let sites = [3032, 3080, 3113].map(|line| [&[("sample", "utils.py", line)][..], &outer].concat());
        let prompt = 4096 * (1 + self.random.below(64));
        let n = 12 + self.random.index(60) as u64;
        let mut buffers: Vec<u64> = sites.iter().map(|site| self.alloc(site, prompt)).collect();
        let cached = [&[("update", "cache_utils.py", 146)][..], &outer].concat();
        let mut cache: Vec<u64> = self.layers.iter().map(|_| 4 * MIB).collect();
        for of_layer in &mut cache {
            *of_layer = self.alloc(&cached, *of_layer);
        }
        let begun = self.entries.len();
        for token in 1..n {
            let kept = self.forward(0, 0.2);
            kept.into_iter().for_each(|block| self.free(block));
            for of_layer in &mut cache {
                let new = self.alloc(&cached, 4 * MIB + 65536 * token);
                self.free(std::mem::replace(of_layer, new));
            }
            for (site, buffer) in sites.iter().zip(&mut buffers) {
                let new = self.alloc(site, prompt + 8 * token);
                self.free(std::mem::replace(buffer, new));
            }
        }
        let first = begun + self.random.index((self.entries.len() - begun) / 2);
        self.entries.drain(..first);
    }

    /// Returns the snapshot; of a ring without its first entries. A request has failed at its end.
    pub(super) fn snapshot(mut self, planted: Planted) -> Snapshot {
        if matches!(planted, RingOfALeak | ReplacedStates) {
            self.entries.drain(..self.entries.len() / 5);
        }
        self.entry("oom", 0, 4 << 40, &json!([{"name": "ask", "filename": "train.py", "line": 99}]));
        let segments: Vec<Value> = self.live.iter().map(segment).collect();
        serde_json::from_value(json!({"segments": segments, "device_traces": [self.entries]}))
            .expect("a snapshot")
    }
}

fn segment(block: &Block) -> Value {
    let Block { address, bytes, frames } = block;
    json!({
        "device": 0, "address": address, "total_size": bytes, "allocated_size": bytes, "active_size": bytes,
        "requested_size": bytes, "stream": 0, "segment_type": "large", "segment_pool_id": [0, 0], "is_expandable": false,
        "frames": [], "blocks": [{"address": address, "size": bytes, "requested_size": bytes, "state": "active_allocated", "frames": frames}],
    })
}
