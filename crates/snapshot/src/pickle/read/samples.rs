//! Snapshot files for unit tests: random histories in the layouts of PyTorch's picklers and of memreel.

#![forbid(unsafe_code)]

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use fastrand::Rng;

use crate::{
    model::Snapshot,
    pickle::{self, opcode},
};

/// Which pickler's layout a file has.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Layout {
    /// Python's `pickle` with protocol 2: every text and container gets a numbered memo.
    Python2,
    /// Python's `pickle` with protocol 4: memos are numbered by their order.
    Python4,
    /// PyTorch's own pickler in C++: texts and stacks get a memo.
    Cpp,
}

/// Returns files of every layout, each with a name.
pub(super) fn files() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for seed in 0..12 {
        let history = history(seed);
        for layout in [Layout::Python2, Layout::Python4, Layout::Cpp] {
            files.push((format!("{layout:?} {seed}"), Pickler::file(layout, &history)));
        }
        let snapshot: Snapshot = serde_json::from_value(history).unwrap();
        files.push((format!("memreel {seed}"), pickle::to_vec(&snapshot)));
    }
    files
}

/// The JSON of a snapshot with random entries; the seed also chooses its keys.
fn history(seed: u64) -> Value {
    let mut random = Rng::with_seed(seed);
    let frame = |n: u64| json!({"name": format!("f{n}"), "filename": format!("{n}.py"), "line": n * 90});
    let stacks: Vec<Value> = (0..6).map(|n| (0..n % 4).map(|_| frame(random.u64(..9))).collect()).collect();
    let entries: Vec<Value> = (0..3 * seed + 2).map(|n| entry(&mut random, seed, n, &stacks)).collect();
    let block = json!({
        "address": 0x7f12_0000_0000_u64, "size": 2 << 20, "requested_size": 700, "state": "active_allocated",
        "frames": stacks[3],
    });
    let segment = json!({
        "device": 0, "address": 0x7f12_0000_0000_u64, "total_size": 2 << 20, "allocated_size": 2 << 20,
        "active_size": 2 << 20, "requested_size": 700, "stream": 0, "segment_type": "small",
        "segment_pool_id": [0, 0], "is_expandable": false, "frames": stacks[1], "blocks": [block],
    });
    json!({"segments": [segment], "device_traces": [entries, []], "other": [stacks[2], null, true]})
}

fn entry(random: &mut Rng, seed: u64, n: u64, stacks: &[Value]) -> Value {
    const ACTIONS: [&str; 6] = ["segment_alloc", "alloc", "alloc", "free_requested", "free_completed", "oom"];
    let action = random.choice(&ACTIONS).copied().unwrap();
    let address = if action == "oom" { "device_free" } else { "addr" };
    let size = random.choice(&[0, 200, 700, 70_000, 5 << 20, 3_u64 << 32]).copied().unwrap();
    let mut entry = Map::new();
    entry.insert("action".into(), action.into());
    entry.insert(address.into(), (0x7f12_0000_0000 + 512 * random.u64(..4096)).into());
    entry.insert("size".into(), size.into());
    entry.insert("stream".into(), (random.choice(&[0, 0, 7, -1]).copied().unwrap()).into());
    if !seed.is_multiple_of(4) {
        entry.insert("time_us".into(), (1_700_000_000_000_000 + n).into());
    }
    if seed % 5 == 1 {
        entry.insert("compile_context".into(), "0/0".into());
    }
    if seed % 3 != 2 {
        entry.insert("frames".into(), random.choice(stacks).unwrap().clone());
    }
    if random.u64(..9) == 0 {
        entry.insert("unknown".into(), json!([n, {"nested": null}]));
    }
    if random.u64(..9) == 0 {
        let first = entry.shift_remove("stream").unwrap();
        entry.insert("stream".into(), first);
    }
    Value::Object(entry)
}

/// Writes JSON as a pickle; texts are shared, and the frames of stacks too.
struct Pickler {
    layout: Layout,
    bytes: Vec<u8>,
    /// The numbers of shared values by their JSON.
    memo: HashMap<String, u32>,
    n_memo: u32,
}

impl Pickler {
    fn file(layout: Layout, value: &Value) -> Vec<u8> {
        let protocol = if layout == Layout::Python4 { 4 } else { 2 };
        let bytes = vec![opcode::PROTO, protocol];
        let mut pickler = Pickler { layout, bytes, memo: HashMap::new(), n_memo: 0 };
        pickler.value(value, false);
        pickler.bytes.push(opcode::STOP);
        pickler.bytes
    }

    fn value(&mut self, value: &Value, is_stack: bool) {
        let name = (is_stack || value.is_string()).then(|| value.to_string());
        if let Some(at) = name.as_ref().and_then(|name| self.memo.get(name)) {
            match u8::try_from(*at) {
                Ok(at) => self.bytes.extend([opcode::BINGET, at]),
                Err(_) => self.bytes.extend([&[opcode::LONG_BINGET][..], &at.to_le_bytes()].concat()),
            }
            return;
        }
        match value {
            Value::Null => self.bytes.push(opcode::NONE),
            Value::Bool(is_true) => {
                self.bytes.push(if *is_true { opcode::NEWTRUE } else { opcode::NEWFALSE });
            }
            Value::Number(number) => self.integer(number.as_i64().unwrap()),
            Value::String(text) => self.text(text, name),
            Value::Array(items) => {
                self.container(opcode::EMPTY_LIST, name);
                self.items([opcode::APPEND, opcode::APPENDS], items.len(), |pickler| {
                    items.iter().for_each(|item| pickler.value(item, is_stack));
                });
            }
            Value::Object(pairs) => {
                self.container(opcode::EMPTY_DICT, name);
                self.items([opcode::SETITEM, opcode::SETITEMS], pairs.len(), |pickler| {
                    pairs.iter().for_each(|(key, value)| pickler.pair(key, value, is_stack));
                });
            }
        }
    }

    fn pair(&mut self, key: &str, value: &Value, is_stack: bool) {
        self.value(&key.into(), false);
        if key == "segment_pool_id" {
            value.as_array().unwrap().iter().for_each(|number| self.value(number, false));
            self.bytes.push(opcode::TUPLE2);
        } else {
            self.value(value, is_stack || key == "frames");
        }
    }

    /// Python writes one item without a mark, and nothing for none.
    fn items(&mut self, [one, many]: [u8; 2], n: usize, write: impl FnOnce(&mut Pickler)) {
        let is_marked = self.layout == Layout::Cpp || n > 1;
        self.bytes.extend(is_marked.then_some(opcode::MARK));
        write(self);
        if is_marked || n > 0 {
            self.bytes.push(if is_marked { many } else { one });
        }
    }

    fn container(&mut self, op: u8, name: Option<String>) {
        self.bytes.push(op);
        if self.layout != Layout::Cpp || name.is_some() {
            self.memoize(name);
        }
    }

    fn text(&mut self, text: &str, name: Option<String>) {
        if self.layout == Layout::Python4 {
            self.bytes.extend([opcode::SHORT_BINUNICODE, u8::try_from(text.len()).unwrap()]);
        } else {
            self.bytes.push(opcode::BINUNICODE);
            self.bytes.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        }
        self.bytes.extend(text.as_bytes());
        self.memoize(name);
    }

    fn memoize(&mut self, name: Option<String>) {
        match (self.layout, u8::try_from(self.n_memo)) {
            (Layout::Python4, _) => self.bytes.push(opcode::MEMOIZE),
            (_, Ok(number)) => self.bytes.extend([opcode::BINPUT, number]),
            (_, Err(_)) => {
                self.bytes.push(opcode::LONG_BINPUT);
                self.bytes.extend(self.n_memo.to_le_bytes());
            }
        }
        self.memo.extend(name.map(|name| (name, self.n_memo)));
        self.n_memo += 1;
    }

    fn integer(&mut self, number: i64) {
        if let Ok(number) = u8::try_from(number) {
            self.bytes.extend([opcode::BININT1, number]);
        } else if let Ok(number) = u16::try_from(number) {
            self.bytes.push(opcode::BININT2);
            self.bytes.extend(number.to_le_bytes());
        } else if let Ok(number) = i32::try_from(number) {
            self.bytes.push(opcode::BININT);
            self.bytes.extend(number.to_le_bytes());
        } else {
            self.bytes.extend([opcode::LONG1, 8]);
            self.bytes.extend(number.to_le_bytes());
        }
    }
}
