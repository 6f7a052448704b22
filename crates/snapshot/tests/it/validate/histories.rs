//! Random histories of a tiny allocator: none has a finding, and one wrong figure is always found.

use memreel_snapshot::{
    Snapshot,
    validate::{Finding, Rule, Severity, validate},
};
use serde_json::{Value, json};

use crate::random::Random;

const SEGMENT: u64 = 2 << 20;

#[derive(Clone, Copy, PartialEq)]
enum State {
    Live,
    Pending,
    Free,
}

#[derive(Clone, Copy)]
struct Block {
    address: u64,
    size: u64,
    requested: u64,
    state: State,
}

/// First fit in segments of 2 MiB, and a log of what it did. One per device.
#[derive(Default)]
struct Naive {
    segments: Vec<Vec<Block>>,
    n_segments: u64,
    log: Vec<Value>,
}

impl Naive {
    fn record(&mut self, action: &str, addr: u64, size: u64) {
        let time = 1_700_000_000_000_000u64 + self.log.len() as u64;
        self.log.push(json!({
            "action": action, "addr": addr, "size": size, "stream": 0, "time_us": time,
            "compile_context": "N/A", "user_metadata": "",
        }));
    }

    fn alloc(&mut self, requested: u64) {
        let size = requested.next_multiple_of(512);
        let fits = |block: &Block| block.state == State::Free && block.size >= size;
        let place = |segments: &[Vec<Block>]| {
            segments.iter().enumerate().find_map(|(s, blocks)| Some((s, blocks.iter().position(fits)?)))
        };
        let (s, b) = place(&self.segments).unwrap_or_else(|| {
            let address = 0x7000_0000_0000 + self.n_segments * SEGMENT;
            self.n_segments += 1;
            self.record("segment_alloc", address, SEGMENT);
            self.segments.push(vec![Block { address, size: SEGMENT, requested: 0, state: State::Free }]);
            (self.segments.len() - 1, 0)
        });
        let block = self.segments[s][b];
        self.segments[s][b] = Block { size, requested, state: State::Live, ..block };
        if block.size > size {
            let rest = Block {
                address: block.address + size,
                size: block.size - size,
                requested: 0,
                state: State::Free,
            };
            self.segments[s].insert(b + 1, rest);
        }
        self.record("alloc", block.address, requested);
    }

    /// The blocks of a state, by segment and place.
    fn places(&self, state: State) -> Vec<(usize, usize)> {
        let all = self.segments.iter().enumerate();
        let all = all.flat_map(|(s, blocks)| (0..blocks.len()).map(move |b| (s, b)));
        all.filter(|(s, b)| self.segments[*s][*b].state == state).collect()
    }

    fn request(&mut self, (s, b): (usize, usize)) {
        let block = &mut self.segments[s][b];
        block.state = State::Pending;
        let (address, requested) = (block.address, block.requested);
        self.record("free_requested", address, requested);
    }

    fn complete(&mut self, (s, b): (usize, usize)) {
        let block = self.segments[s][b];
        self.record("free_completed", block.address, block.requested);
        let blocks = &mut self.segments[s];
        blocks[b].state = State::Free;
        for left in [b, b.wrapping_sub(1)] {
            let both = blocks.get(left).zip(blocks.get(left.wrapping_add(1)));
            if both.is_some_and(|(one, other)| one.state == State::Free && other.state == State::Free) {
                blocks[left].size += blocks.remove(left + 1).size;
            }
        }
    }

    fn empty_cache(&mut self) {
        let is_empty = |blocks: &Vec<Block>| blocks.len() == 1 && blocks[0].state == State::Free;
        for blocks in self.segments.extract_if(.., |blocks| is_empty(blocks)).collect::<Vec<_>>() {
            self.record("segment_free", blocks[0].address, SEGMENT);
        }
    }

    fn snapshot(&mut self) {
        let active = self.segments.iter().flatten().filter(|block| block.state != State::Free);
        let bytes = active.map(|block| block.size).sum();
        self.record("snapshot", 0, bytes);
    }

    fn step(&mut self, random: &mut Random) {
        let (live, pending) = (self.places(State::Live), self.places(State::Pending));
        match random.index(100) {
            0 => self.empty_cache(),
            1 => self.snapshot(),
            2..10 if !pending.is_empty() => self.complete(pending[random.index(pending.len())]),
            10..55 if !live.is_empty() => {
                let place = live[random.index(live.len())];
                self.request(place);
                if random.index(4) > 0 {
                    self.complete(place);
                }
            }
            _ => {
                // Half of the sizes are tiny, so that blocks have many neighbours.
                let most = [2_000, 600_000][random.index(2)];
                self.alloc(1 + random.index(most) as u64);
            }
        }
    }

    fn segment(&self, device: usize, blocks: &[Block]) -> Value {
        let sum = |f: &dyn Fn(&Block) -> Option<u64>| blocks.iter().filter_map(f).sum::<u64>();
        let is_active = |block: &Block| block.state != State::Free;
        let block = |block: &Block| {
            let state = match block.state {
                State::Live => "active_allocated",
                State::Pending => "active_pending_free",
                State::Free => "inactive",
            };
            json!({"address": block.address, "size": block.size, "requested_size": block.requested,
                   "state": state, "frames": []})
        };
        json!({
            "device": device, "address": blocks[0].address, "total_size": SEGMENT,
            "allocated_size": sum(&|b| (b.state == State::Live).then_some(b.size)),
            "active_size": sum(&|b| is_active(b).then_some(b.size)),
            "requested_size": sum(&|b| is_active(b).then_some(b.requested)),
            "stream": 0, "segment_type": "small", "segment_pool_id": [0, 0], "is_expandable": false,
            "frames": [], "blocks": blocks.iter().map(block).collect::<Vec<_>>(),
        })
    }
}

/// Two devices with the same addresses, after some hundred steps each.
fn history(seed: u64) -> Value {
    let mut random = Random::new(seed);
    let mut devices = [Naive::default(), Naive::default()];
    for device in &mut devices {
        // Not a length that looks like a full ring.
        while device.log.len() < 201 || device.log.len() % 100 == 0 {
            device.step(&mut random);
        }
        device.segments.sort_by_key(|blocks| blocks[0].address);
    }
    let segments: Vec<Value> = devices
        .iter()
        .enumerate()
        .flat_map(|(n, device)| device.segments.iter().map(move |blocks| device.segment(n, blocks)))
        .collect();
    let [first, second] = devices.map(|device| device.log);
    json!({"segments": segments, "device_traces": [first, second]})
}

fn findings(json: &Value) -> Vec<Finding> {
    validate(&serde_json::from_value::<Snapshot>(json.clone()).unwrap())
}

fn is_bad(finding: &Finding) -> bool {
    finding.severity > Severity::Pytorch
}

fn told(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("{finding}\n")).collect()
}

#[test]
fn a_true_history_has_no_finding() {
    for seed in 0..60 {
        let found = findings(&history(seed));
        assert!(found.is_empty(), "seed {seed}:\n{}", told(&found));
    }
}

#[test]
fn a_ring_that_lost_its_beginning_has_no_error() {
    for seed in 0..60 {
        let mut json = history(seed);
        for (device, trace) in json["device_traces"].as_array_mut().unwrap().iter_mut().enumerate() {
            trace.as_array_mut().unwrap().drain(..10 + 37 * device + usize::try_from(seed).unwrap());
        }
        let found = findings(&json);
        assert!(
            !found.iter().any(|finding| finding.severity == Severity::Error),
            "seed {seed}:\n{}",
            told(&found)
        );
        let lost = |finding: &Finding| matches!(finding.rule, Rule::Lifecycle | Rule::FinalState);
        assert!(found.iter().any(lost), "seed {seed}: nothing says that events are missing");
    }
}

/// Changes one figure; what was done, in words.
fn corrupt(json: &mut Value, random: &mut Random) -> String {
    let pick = |list: &Value, random: &mut Random| random.index(list.as_array().unwrap().len());
    let kind = random.index(8);
    if kind < 4 {
        let s = pick(&json["segments"], random);
        let b = pick(&json["segments"][s]["blocks"], random);
        let block = &mut json["segments"][s]["blocks"][b];
        match kind {
            0 => block["size"] = json!(block["size"].as_u64().unwrap() + 512),
            1 => block["address"] = json!(block["address"].as_u64().unwrap() + 512),
            2 if block["state"] == "inactive" => block["state"] = json!("active_allocated"),
            2 => block["state"] = json!("inactive"),
            _ if block["state"] == "active_allocated" => block["state"] = json!("active_pending_free"),
            _ => block["state"] = json!("active_allocated"),
        }
        return format!("segments[{s}].blocks[{b}] {kind}");
    }
    let device = random.index(2);
    let trace = json["device_traces"][device].as_array_mut().unwrap();
    loop {
        let at = random.index(trace.len());
        let action = trace[at]["action"].as_str().unwrap().to_owned();
        // A millisecond back is tolerated. A wrong size at a snapshot may hide in unknown rounding, and the end of the first life of
        // a segment cannot be told from a ring's beginning; blocks have no such excuse.
        if !["alloc", "free_requested", "free_completed"].contains(&&*action) {
            continue;
        }
        match kind {
            4 => trace[at]["addr"] = json!(trace[at]["addr"].as_u64().unwrap() + 256),
            5 if action == "alloc" => {
                trace[at]["size"] = json!(trace[at]["size"].as_u64().unwrap() + SEGMENT)
            }
            5 | 6 => trace[at]["time_us"] = json!(trace[at]["time_us"].as_u64().unwrap() - 10_000),
            _ => drop(trace.remove(at)),
        }
        return format!("device_traces[{device}][{at}] {action} {kind}");
    }
}

#[test]
fn one_wrong_figure_is_found() {
    let mut random = Random::new(7);
    let histories: Vec<Value> = (0..8).map(history).collect();
    for n in 0..400 {
        let mut json = histories[n % histories.len()].clone();
        let what = corrupt(&mut json, &mut random);
        let found = findings(&json);
        assert!(found.iter().any(is_bad), "{n}: nothing found after {what}:\n{}", told(&found));
    }
}

/// Every place of a JSON value, as pointers.
fn pointers(json: &Value) -> Vec<String> {
    let (mut open, mut all) = (vec![(String::new(), json)], Vec::new());
    while let Some((pointer, value)) = open.pop() {
        match value {
            Value::Array(list) => {
                open.extend(list.iter().enumerate().map(|(n, v)| (format!("{pointer}/{n}"), v)))
            }
            Value::Object(map) => open.extend(map.iter().map(|(key, v)| (format!("{pointer}/{key}"), v))),
            _ => {}
        }
        all.push(pointer);
    }
    all
}

#[test]
fn garbage_gives_findings_and_no_panic() {
    let garbage = [
        json!(null),
        json!(-1),
        json!(u64::MAX),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(1.5),
        json!(true),
        json!("x"),
        json!("\u{feff}"),
        json!([]),
        json!([[], {}]),
        json!({}),
        json!({"__proto__": 1}),
        json!(0),
    ];
    let mut random = Random::new(3);
    let base = history(1);
    let places = pointers(&base);
    let mut n_found = 0;
    for _ in 0..500 {
        let mut json = base.clone();
        for _ in 0..=random.index(4) {
            let place = &places[random.index(places.len())];
            if let Some(value) = json.pointer_mut(place) {
                *value = garbage[random.index(garbage.len())].clone();
            }
        }
        // A list with something in it that is no dict is refused before.
        if let Ok(snapshot) = serde_json::from_value::<Snapshot>(json) {
            n_found += usize::from(!validate(&snapshot).is_empty());
        }
    }
    assert!(n_found > 300, "only {n_found} had findings");
}
